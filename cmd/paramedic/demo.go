package main

import (
	"errors"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/demo"
	"paramedic/cmd/paramedic/score"
	"paramedic/lab"
)

func (c *cli) demoCommand() *cobra.Command {
	d := &demo.Demo{Out: c.out, Err: c.err}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "The whole loop on this machine: a simulated fleet breaks, the bot finds out why and mends it",
		Long: "A simulated pool of workers serves traffic, a fault is injected, real alert rules fire and genuine webhooks reach the " +
			"real bot.\n" +
			"Watch it on the page, approve the first aid, and see the pool recover. Nothing leaves this machine.\n\nFaults: " +
			strings.Join(lab.Faults(), ", "),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.Log = c.quietLogger()
			return d.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.Fault, "fault", lab.KVExhaustion, "what goes wrong")
	f.StringVar(&d.Engine, "engine", string(lab.VLLM), score.EngineUsage)
	f.Float64Var(&d.Speed, "speed", 0, "simulated seconds a second (default 15, and 60 with --headless); while first aid waits for you "+
		"it is 1")
	f.BoolVar(&d.Headless, "headless", false,
		"approve what is offered, play one incident to its end, and exit 0 if it was diagnosed and mitigated")
	f.StringVar(&d.Listen, "listen", "", "address of the incident page (default 127.0.0.1:8080, and any free port with --headless)")
	f.Uint64Var(&d.Seed, "seed", 4, "another seed is another day")
	return cmd
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
