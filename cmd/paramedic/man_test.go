package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// manDir holds a man page for each command. The archives of a release contain them.
const manDir = "../../docs/man"

func TestGeneratedManPagesAreCurrent(t *testing.T) {
	var c cli
	root := c.root()
	pages := map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd != root && !cmd.IsAvailableCommand() {
			return
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		pages[name] = true
		current(t, filepath.Join(manDir, name), manPage(t, cmd))
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	found, err := os.ReadDir(manDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !pages[f.Name()] {
			t.Errorf("%s/%s is the page of no command: remove it", manDir, f.Name())
		}
	}
}

// manPage returns a command's page in roff. Version and date are empty until a release sets them.
func manPage(t *testing.T, cmd *cobra.Command) []byte {
	t.Helper()
	cmd.DisableAutoGenTag = true
	cmd.Long = asMarkdown(cmd.Long)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	var b bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Date: &time.Time{}, Manual: "Paramedic"}, &b); err != nil {
		t.Fatal(err)
	}
	return bytes.Replace(b.Bytes(), []byte(`"Jan 0001"`), []byte(`""`), 1)
}

// asMarkdown returns a help text whose indented lines keep their line breaks.
func asMarkdown(help string) string {
	var out strings.Builder
	block := false
	for line := range strings.Lines(help) {
		if indented := strings.HasPrefix(line, "  "); indented != block {
			out.WriteString("\n")
			block = indented
		}
		if block {
			out.WriteString("    ")
		}
		out.WriteString(line)
	}
	return out.String()
}
