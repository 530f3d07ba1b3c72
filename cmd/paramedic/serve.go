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
		Long: "Run the bot. Without a configuration it listens on loopback, remembers in ./paramedic-data, prints incidents on " +
			"the\nconsole and only suggests first aid.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return service.Serve(cmd.Context(), path, c.logger(), c.out)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file (docs/reference/configuration.md)")
	return cmd
}
