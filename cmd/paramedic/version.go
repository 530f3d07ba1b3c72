package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/service"
)

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			revision := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = s.Value[:min(12, len(s.Value))]
					}
				}
			}
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if c.output == "json" {
				return c.json(map[string]string{"version": service.Version, "revision": revision, "go": runtime.Version(),
					"platform": platform})
			}
			words := slices.DeleteFunc([]string{"paramedic", service.Version, revision, runtime.Version(), platform},
				func(w string) bool { return w == "" })
			_, err := fmt.Fprintln(c.out, strings.Join(words, " "))
			return err
		},
	}
}
