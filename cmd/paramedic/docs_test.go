package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"paramedic/internal/pages"
)

func allPages(t *testing.T) []pages.Page {
	t.Helper()
	all, err := pages.All("../..")
	if err != nil || len(all) < 40 {
		t.Fatalf("%d pages: %v", len(all), err)
	}
	return all
}

// Every command line of every page names commands and flags that exist. In a code block it also has
// the right number of arguments.
func TestCommandsInPagesParse(t *testing.T) {
	seen := 0
	for _, page := range allPages(t) {
		for _, line := range page.Spans {
			if args, ok := commandLine(line); ok && len(args) > 0 {
				seen++
				if err := parses(args, false); err != nil {
					t.Errorf("%s: `%s`: %v", page.Path, line, err)
				}
			}
		}
		for _, b := range page.Blocks {
			if b.Lang != "" && b.Lang != "sh" {
				continue
			}
			for i, line := range strings.Split(strings.ReplaceAll(b.Text, "\\\n", "  "), "\n") {
				if args, ok := commandLine(line); ok {
					seen++
					if err := parses(args, true); err != nil {
						t.Errorf("%s:%d: %s: %v", page.Path, b.Line+i, line, err)
					}
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d command lines were found", seen)
	}
}

// commandLine returns the arguments of a line of a shell that runs paramedic.
func commandLine(line string) ([]string, bool) {
	var words []string
	for _, word := range strings.Fields(line) {
		if strings.ContainsAny(word[:1], "#|&;<>") || word == "2>" {
			break
		}
		end := strings.TrimRight(word, ";")
		words = append(words, strings.Trim(end, `'"[]`))
		if end != word {
			break
		}
	}
	if len(words) > 0 && slices.Contains([]string{"sudo", "$"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 || !slices.Contains([]string{"paramedic", "./paramedic", "bin/paramedic", "./bin/paramedic"}, words[0]) {
		return nil, false
	}
	return words[1:], true
}

// parses returns an error if a command, a flag, or with whole an argument is not one that exists.
func parses(args []string, whole bool) error {
	c := cli{out: io.Discard, err: io.Discard}
	root := c.root()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	given := cmd.Flags().Args()
	if len(given) > 0 && cmd.HasAvailableSubCommands() {
		return fmt.Errorf("there is no command %q", given[0])
	}
	if !whole {
		return nil
	}
	return errors.Join(cmd.ValidateArgs(given), cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
}

// elsewhere has the blocks with shown outputs that another test runs or derives: for each page, the
// beginnings of their commands.
var elsewhere = map[string][]string{
	"README.md":        {"./bin/paramedic demo "}, // cmd/paramedic/demo
	"docs/install.md":  {"helm ", "kubectl "},     // tools/chart
	"docs/tutorial.md": {""},                      // e2e/pipeline, with real servers
}

// The commands of a page print what the page shows. They run beside a bot, in a folder that holds
// the page's YAML samples that begin with a comment of their name.
func TestCommandsInPagesPrintWhatIsShown(t *testing.T) {
	scripts := t.TempDir()
	for _, page := range allPages(t) {
		name, err := filepath.Rel("../..", page.Path)
		if err != nil {
			t.Fatal(err)
		}
		var script, files strings.Builder
		for i, b := range page.Blocks {
			if file, ok := strings.CutPrefix(b.Text, "# "); ok && b.Lang == "yaml" {
				file, _, _ = strings.Cut(file, "\n")
				fmt.Fprintf(&files, "-- %s --\n%s", file, b.Text)
			}
			isElsewhere := slices.ContainsFunc(elsewhere[filepath.ToSlash(name)], func(start string) bool { return strings.HasPrefix(b.Text, start) })
			if b.Output != nil && !isElsewhere {
				fmt.Fprintf(&script, "prints %s %d\n", page.Path, i)
			}
		}
		if script.Len() > 0 {
			put(t, scripts, strings.ReplaceAll(name, string(filepath.Separator), "_")+".txtar", []byte(script.String()+files.String()))
		}
	}
	address, _ := startBot(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: scripts, Cmds: map[string]func(*testscript.TestScript, bool, []string){
		"prints": func(ts *testscript.TestScript, _ bool, args []string) {
			page, err := pages.Read(filepath.Join(here, args[0]))
			ts.Check(err)
			i, err := strconv.Atoi(args[1])
			ts.Check(err)
			b := page.Blocks[i]
			b.Text = strings.ReplaceAll(b.Text, "http://127.0.0.1:8080", address)
			printsWhatIsShown(ts, page.Path, b)
		}}})
}

// printsWhatIsShown runs a block's commands. An exit code is no failure, because 2 means a finding.
func printsWhatIsShown(ts *testscript.TestScript, path string, b pages.Block) {
	err := ts.Exec("sh", "-c", "exec 2>&1\n"+b.Text)
	var code *exec.ExitError
	if err != nil && !errors.As(err, &code) {
		ts.Fatalf("%s:%d: %v", path, b.Line, err)
	}
	if real := ts.ReadFile("stdout"); !b.Output.Matches(real) {
		ts.Fatalf("%s:%d shows\n%s\nand the commands print\n%s", path, b.Line, b.Output.Text, real)
	}
}
