package main

import (
	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/service"
)

func (c *cli) serveCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the bot",
		Long: "Run the bot. Without --config it listens on 127.0.0.1:8080, stores its data in ./paramedic-data, prints incidents\n" +
			"on the console and only suggests first aid. The bot applies a changed configuration file while it runs,\n" +
			"within seconds or at SIGHUP.",
		Example: "  paramedic serve\n  paramedic serve --config paramedic.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return service.Serve(cmd.Context(), path, c.logger(), c.out)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file` (docs/reference/configuration.md)")
	return cmd
}
