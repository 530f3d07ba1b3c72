package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/backtest"
	"paramedic/cmd/paramedic/client"
	"paramedic/cmd/paramedic/printing"
	"paramedic/cmd/paramedic/transfer"
)

// Exit codes of every command.
const (
	exitOK      = 0
	exitError   = 1
	exitFinding = 2 // the command did its work and found something
)

// errFinding ends a command with exitFinding. The findings are already printed.
var errFinding = errors.New("something was found")

// A cli holds the streams and the flags that all commands share.
type cli struct {
	out, err io.Writer
	output   string // text, json or markdown
	verbose  bool
}

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &cli{out: stdout, err: stderr}
	root := c.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFinding):
		return exitFinding
	}
	fmt.Fprintln(stderr, "paramedic:", plain(err))
	return exitError
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "paramedic",
		Short: "The first responder of LLM inference fleets",
		Long: "Paramedic receives Alertmanager's alerts and opens one incident for each problem. The incident names the\n" +
			"root cause with live evidence. Paramedic gives first aid, within guards, if you allow it.\n\n" +
			"Exit codes of all commands: 0: success; 1: error; 2: the command found something.",
		Example: "  paramedic demo                                        watch an incident on a simulated fleet\n" +
			"  paramedic diagnose --prometheus http://127.0.0.1:9090 look at your fleet once\n" +
			"  paramedic serve --config paramedic.yaml               run the bot",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVarP(&c.output, "output", "o", "text", "output `format`: text, json or markdown; not every "+
		"command has all")
	root.PersistentFlags().BoolVarP(&c.verbose, "verbose", "v", false, "log each step to standard error")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return canPrint(cmd, c.output) }
	root.AddCommand(c.serveCommand(), c.demoCommand(), c.diagnoseCommand(), c.checkCommand(), c.replayCommand(),
		backtest.Command(backtest.Streams{Out: c.out, People: printing.People{Writer: c.out}, Err: c.err, Format: &c.output}),
		c.tuneCommand(),
		transfer.Command(transfer.Streams{Out: c.out, Err: c.err, Logger: c.quietLogger}),
		c.playbooksCommand(), c.rulesCommand(), c.labCommand(), c.versionCommand())
	root.AddCommand(client.Commands(client.Streams{Out: c.out, Format: &c.output})...)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultCompletionCmd()
	explain(root)
	return root
}

// formats has the output formats of commands besides text, by their path below paramedic.
var formats = map[string][]string{
	"diagnose": {"json", "markdown"}, "check": {"json"}, "replay": {"json"}, "version": {"json"}, "tune": {"json"},
	"playbooks": {"json"}, "playbooks list": {"json"}, "playbooks show": {"json"}, "playbooks test": {"json"},
	"rules": {"json"}, "rules list": {"json"}, "rules show": {"json"}, "rules test": {"json"},
	"lab score": {"json"}, "lab storm": {"json"}, "incidents stats": {"json"}, "backtest": {"json", "markdown"},
	"incidents": {"json"}, "incidents list": {"json"}, "incidents show": {"json"}, "incidents report": {"json", "markdown"},
	"ack": {"json"}, "cancel": {"json"}, "approve": {"json"}, "deny": {"json"}, "silence": {"json"}, "halt": {"json"}, "resume": {"json"},
}

// canPrint returns an error for an output format that a command lacks. Otherwise a program could
// parse text by mistake.
func canPrint(cmd *cobra.Command, output string) error {
	switch output {
	case "text":
		return nil
	case "json", "markdown":
	default:
		return fmt.Errorf("-o %s: use text, json or markdown", output)
	}
	can := formats[strings.TrimPrefix(cmd.CommandPath(), "paramedic ")]
	if slices.Contains(can, output) {
		return nil
	}
	return fmt.Errorf("-o %s: `%s` can print %s", output, cmd.CommandPath(), strings.Join(append([]string{"text"}, can...), ", "))
}

// logger returns the logger of serve. It writes to standard error, because the console notifier
// writes to standard output.
func (c *cli) logger() *slog.Logger {
	level := slog.LevelInfo
	if c.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: level}))
}

// quietLogger returns a logger for commands that print a result. It logs warnings, and everything
// with -v.
func (c *cli) quietLogger() *slog.Logger {
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: level}))
}

// json prints a value as JSON.
func (c *cli) json(v any) error {
	return printing.JSON(c.out, v)
}
