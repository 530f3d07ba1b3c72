package transfer

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/config"
)

// Streams holds the outputs of a command.
type Streams struct {
	Out, Err io.Writer
	Logger   func() *slog.Logger
}

// Command returns the command state, with its subcommands.
func Command(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Export and import the state of a bot",
		Long: "Export the state of a bot that is stopped, and import it into an empty store: for instance to move from the\n" +
			"embedded JetStream (state.dir) to an external NATS cluster (state.nats.url). The file holds every input and every\n" +
			"incident, and no secrets.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.export(), s.imports())
	return cmd
}

func (s Streams) export() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write the state to a file",
		Long: "Write the state of the configuration to a file: all inputs and all records, one JSON value a line. With - it\n" +
			"writes to standard output. Stop the bot first. The command changes nothing of the state.",
		Example: "  paramedic state export --config paramedic.yaml state.ndjson",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(path)
			if err != nil {
				return err
			}
			return s.exportTo(cmd.Context(), cfg, args[0])
		},
	}
	configFlag(cmd, &path)
	return cmd
}

func (s Streams) imports() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Fill an empty store from a file",
		Long: "Fill the empty store of the configuration from the file of an export, and compare the two. The command writes\n" +
			"nothing if the file was cut or changed, or if the store is not empty. If it is interrupted, start it again.",
		Example: "  paramedic state import --config paramedic.yaml state.ndjson",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(path)
			if err != nil {
				return err
			}
			return s.importFrom(cmd.Context(), cfg, args[0])
		},
	}
	configFlag(cmd, &path)
	return cmd
}

func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "configuration `file` that names the state; without it, the state is in ./paramedic-data")
}

func load(path string) (config.Config, error) {
	cfg, err := config.Load(path)
	if err != nil {
		return cfg, fmt.Errorf("the configuration is not valid:\n%w", err)
	}
	return cfg, nil
}

// progressEvery is the number of inputs between two reports of the progress.
const progressEvery = 100_000

// progress reports long work on standard error.
func (s Streams) progress(doing string, inputs uint64) {
	if inputs%progressEvery == 0 {
		fmt.Fprintf(s.Err, "%s %d input messages so far\n", doing, inputs)
	}
}

// closing closes what a command has opened, and keeps the first error.
func closing(ctx context.Context, into *error, end func(context.Context) error) {
	if err := end(context.WithoutCancel(ctx)); err != nil && *into == nil {
		*into = err
	}
}
