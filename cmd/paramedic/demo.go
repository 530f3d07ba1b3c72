package main

import (
	"errors"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/demo"
	"paramedic/cmd/paramedic/score"
	"paramedic/internal/text"
	"paramedic/lab"
	"paramedic/lab/engine"
)

func (c *cli) demoCommand() *cobra.Command {
	d := &demo.Demo{Out: c.out, Err: c.err}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch the bot diagnose and repair a simulated fleet on this machine",
		Long: "Watch the bot on a simulated pool of workers. The demo injects a fault, real alert rules fire, and the bot\n" +
			"receives real webhooks. Open the page, approve the first aid, and see the pool recover. Nothing leaves this\n" +
			"machine.\n\nFaults:\n" + strings.Join(text.Wrap(strings.Join(lab.Faults(), ", "), 100), "\n"),
		Example: "  paramedic demo\n  paramedic demo --fault gpu_fault --engine sglang\n  paramedic demo --headless",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.Log = c.quietLogger()
			return d.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.Fault, "fault", lab.KVExhaustion, "`fault` to inject")
	f.StringVar(&d.Engine, "engine", string(engine.VLLM), score.EngineUsage)
	f.Float64Var(&d.Speed, "speed", 0, "simulated `seconds` per second (default 15, or 60 with --headless); 1 while an action waits for "+
		"your approval")
	f.BoolVar(&d.Headless, "headless", false,
		"approve every action, play one incident, and exit with 0 if it was diagnosed and mitigated")
	f.StringVar(&d.Listen, "listen", "", "`address` of the incident page (default 127.0.0.1:8080, or a free port with --headless)")
	f.Uint64Var(&d.Seed, "seed", 4, "`seed` of the traffic")
	return cmd
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
