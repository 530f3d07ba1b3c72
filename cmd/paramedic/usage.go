package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"paramedic/internal/text"
)

// An argument describes a positional argument of a command, with an example.
type argument struct{ what, example string }

const (
	anIncident = "an incident: its number, its ID or the beginning of its ID (`paramedic incidents` lists them)"
	anAction   = "an action: its ID or the beginning of its ID (`paramedic incidents show 7` lists the actions of incident 7)"
)

// arguments has the positional arguments of commands, by their path below paramedic.
var arguments = map[string]argument{
	"incidents show": {anIncident, "7"}, "incidents report": {anIncident, "7"}, "ack": {anIncident, "7"}, "silence": {anIncident,
		"7 --for 45m"},
	"approve": {anAction, "ACT-01J8 9f2c41d0"}, "deny": {anAction, "ACT-01J8"}, "cancel": {anAction, "ACT-01J8"},
	"state export": {"the file to write, - for standard output", "state.ndjson"}, "state import": {"the file of an export", "state.ndjson"},
	"playbooks show": {"a playbook (`paramedic playbooks` lists them)", "kv_exhaustion"},
	"rules show":     {"a cause or a pathology (`paramedic rules` lists them)", "kv_exhaustion"},
	"playbooks test": {"the directory of your playbooks", "./playbooks"}, "rules test": {"the directory of your cases, or one case",
		"./rules"},
	"replay": {"files with recorded payloads: JSON, or one payload per line", "payload.json"},
}

// explain replaces the errors of wrong calls on every command by ones that say what to type
// instead.
func explain(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagError)
	if !cmd.Runnable() { // the library prints the help of such a group, whatever its arguments are
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if takes := cmd.Args; takes != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if takes(cmd, args) == nil && !(len(args) == 1 && strings.TrimSpace(args[0]) == "") {
				return nil
			}
			return miscalled(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		explain(sub)
	}
}

// miscalled returns the error for a command with wrong arguments.
func miscalled(cmd *cobra.Command, args []string) error {
	path := strings.TrimPrefix(cmd.CommandPath(), "paramedic ")
	arg, takes := arguments[path]
	example := fmt.Sprintf("`%s %s`", cmd.CommandPath(), arg.example)
	switch {
	case takes && (len(args) == 0 || strings.TrimSpace(args[0]) == ""):
		return fmt.Errorf("an argument is missing. Name %s. Example: %s", arg.what, example)
	case takes:
		most := []string{"no argument", "one argument", "two arguments"}[min(strings.Count(cmd.Use, " "), 2)]
		return fmt.Errorf("`%s` takes %s, but got %d: %s. Example: %s", cmd.CommandPath(), most, len(args), quotedList(args), example)
	case cmd.HasAvailableSubCommands():
		return unknownCommand(cmd, args[0])
	case cmd.Flags().Lookup("config") != nil:
		return fmt.Errorf("`%s` takes no argument, but got %s: did you mean --config %s?", cmd.CommandPath(), quotedList(args), args[0])
	}
	return fmt.Errorf("`%s` takes no argument, but got %s: `%[1]s --help` lists its flags", cmd.CommandPath(), quotedList(args))
}

func quotedList(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = strconv.Quote(a)
	}
	return strings.Join(quoted, ", ")
}

// unknownCommand returns the error for an unknown command, with suggestions.
func unknownCommand(parent *cobra.Command, name string) error {
	guesses := []string{}
	for _, s := range alike(parent, name) {
		guesses = append(guesses, parent.CommandPath()+" "+s)
	}
	if !parent.HasParent() && len(guesses) == 0 { // a command of a group, without the group
		for _, group := range parent.Commands() {
			for _, sub := range group.Commands() {
				if sub.Name() == name && !sub.Hidden {
					guesses = append(guesses, sub.CommandPath())
				}
			}
		}
	}
	for i, g := range guesses {
		guesses[i] = "`" + g + "`"
	}
	what := fmt.Sprintf("there is no command %q of `%s`", name, parent.CommandPath())
	if !parent.HasParent() {
		what = fmt.Sprintf("there is no command %q", name)
	}
	if len(guesses) == 0 {
		return fmt.Errorf("%s: `%s --help` lists them", what, parent.CommandPath())
	}
	return fmt.Errorf("%s: did you mean %s?", what, strings.Join(guesses, " or "))
}

// alike returns the commands that begin with a name, or else the one that is most like it.
func alike(parent *cobra.Command, name string) []string {
	var names, begin []string
	for _, sub := range parent.Commands() {
		if sub.Hidden {
			continue
		}
		names = append(names, sub.Name())
		if strings.HasPrefix(sub.Name(), strings.ToLower(name)) {
			begin = append(begin, sub.Name())
		}
	}
	if best := text.Closest(strings.ToLower(name), names); len(begin) == 0 && best != "" {
		return []string{best}
	}
	return begin
}

// flagKinds has words for the types of flags.
var flagKinds = map[string]string{"duration": "a time such as 45m", "int": "a whole number", "int64": "a whole number",
	"uint64":  "a whole number",
	"float64": "a number", "bool": "true or false"}

// flagError rewrites the library's errors about flags.
func flagError(cmd *cobra.Command, err error) error {
	var absent *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &absent):
		name := absent.GetSpecifiedName()
		dashes := "--"
		if absent.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if guess, ok := strings.CutPrefix(text.DidYouMean(name, known), "did you mean "); ok && dashes == "--" {
			return fmt.Errorf("`%s` has no flag --%s: did you mean --%s", cmd.CommandPath(), name, guess)
		}
		return fmt.Errorf("`%s` has no flag %s%s: `%[1]s --help` lists them", cmd.CommandPath(), dashes, name)
	case errors.As(err, &empty):
		_, usage := pflag.UnquoteUsage(empty.GetFlag())
		return fmt.Errorf("--%s needs a value: %s", empty.GetFlag().Name, usage)
	case errors.As(err, &wrong):
		kind, ok := flagKinds[wrong.GetFlag().Value.Type()]
		if !ok {
			kind = "a valid value"
		}
		return fmt.Errorf("--%s %q is not %s", wrong.GetFlag().Name, wrong.GetValue(), kind)
	}
	return err
}

// These match the library's errors for flags that exclude or need each other. The library has no
// error types for them.
var (
	exclusive = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.+)\] were all set$`)
	together  = regexp.MustCompile(`^if any flags in the group \[.*\] are set they must all be set; missing \[(.+)\]$`)
)

// plain rewrites the library's errors about flags that exclude or need each other.
func plain(err error) error {
	flags := func(names string) string { return "--" + strings.Join(strings.Fields(names), " and --") }
	if m := exclusive.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("use only one of %s", flags(m[1]))
	}
	if m := together.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s is missing: the other flags need it", flags(m[1]))
	}
	return err
}

// helpCommand returns the command that shows another command's help, or an error for an unknown
// command.
func helpCommand() *cobra.Command {
	return &cobra.Command{Use: "help [command]", Short: "Show the help of a command", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return fmt.Errorf("finding the command: %w", err)
			}
			if _, takes := arguments[strings.TrimPrefix(found.CommandPath(), "paramedic ")]; len(rest) > 0 && !takes {
				return unknownCommand(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		}}
}
