package playbooks

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Sections returns the headings that every playbook's body must have.
func Sections() []string { return []string{"What it means", "Who is affected", "By hand"} }

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// Validate returns an error of type [Problems] if a playbook uses an undeclared signal. known lists
// the declared IDs.
func (l *Library) Validate(known []string) error {
	var problems Problems
	for _, pb := range l.All() {
		for i, c := range pb.Checks {
			if !slices.Contains(known, c.Signal) {
				problems = append(problems, Problem{File: pb.File, Line: pb.line(fmt.Sprintf("checks.%d.signal", i)),
					Text: fmt.Sprintf("check %s uses the signal %q, which is not declared%s", c.ID, c.Signal,
						nearest(c.Signal, known))})
			}
		}
	}
	return problems.err()
}

// nearest suggests the known name with the longest common prefix.
func nearest(name string, known []string) string {
	best, length := "", 3
	for _, k := range known {
		n := 0
		for n < len(k) && n < len(name) && k[n] == name[n] {
			n++
		}
		if n > length {
			best, length = k, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// check returns the mistakes in the values of the playbook. The format has reported missing ones.
func (pb *Playbook) check() Problems {
	var problems Problems
	add := func(path, format string, args ...any) {
		problems = append(problems, Problem{File: pb.File, Line: pb.line(path), Text: fmt.Sprintf(format, args...)})
	}
	stem := strings.TrimSuffix(filepath.Base(pb.File), ".md")
	switch {
	case pb.ID == "":
	case !idPattern.MatchString(pb.ID):
		add("id", "id %q may contain only lower-case letters, digits and underscores", pb.ID)
	case pb.ID != stem:
		add("id", "id %q differs from the file's name: rename the file to %s.md, or the id to %s", pb.ID, pb.ID, stem)
	}
	if pb.Cause != "" && !idPattern.MatchString(pb.Cause) {
		add("cause", "cause %q has to be a cause's ID", pb.Cause)
	}
	if !slices.Contains([]string{"", "critical", "warning", "info"}, pb.Severity) {
		add("severity", "severity %q has to be critical, warning or info", pb.Severity)
	}
	seen := map[string]bool{}
	for i, c := range pb.Checks {
		at := fmt.Sprintf("checks.%d", i)
		if c.ID != "" && seen[c.ID] {
			add(at+".id", "check id %q is used twice", c.ID)
		}
		seen[c.ID] = true
		c.check(func(key, format string, args ...any) { add(at+"."+key, format, args...) })
	}
	for i, r := range pb.FirstAid {
		at := fmt.Sprintf("first_aid.%d", i)
		r.check(func(key, format string, args ...any) { add(at+"."+key, format, args...) })
	}
	if after := pb.Escalate.After; after != "" && after != "at once" {
		if d, err := time.ParseDuration(after); err != nil || d <= 0 {
			add("escalate.after", "escalate.after %q has to be a duration such as 30m, or \"at once\"", after)
		}
	}
	for _, s := range Sections() {
		if !hasSection(pb.Body, s) {
			add("body", "the body has no section \"## %s\"", s)
		}
	}
	return problems
}

func (c Check) check(add func(key, format string, args ...any)) {
	if c.ID != "" && !idPattern.MatchString(c.ID) {
		add("id", "check id %q may contain only lower-case letters, digits and underscores", c.ID)
	}
	if !slices.Contains([]string{"", "max", "min", "avg", "sum"}, c.Agg) {
		add("agg", "agg %q has to be max, min, avg or sum", c.Agg)
	}
	if c.Warn != nil && c.Crit != nil {
		switch {
		case !c.Below && *c.Crit < *c.Warn:
			add("crit", "crit %v is less than warn %v: set below: true if low values are bad", *c.Crit,
				*c.Warn)
		case c.Below && *c.Crit > *c.Warn:
			add("crit", "crit %v is more than warn %v: with below: true it must not be more", *c.Crit, *c.Warn)
		}
	}
	if c.Below && c.Warn == nil && c.Crit == nil {
		add("below", "below has no effect without warn or crit: set one of them")
	}
}

func (r Remedy) check(add func(key, format string, args ...any)) {
	allowed := []string{}
	switch r.Action {
	case "":
	case ActionSetEngineArg:
		allowed = []string{"arg", "direction"}
		if arg := r.Params["arg"]; arg == "" {
			add("params", "set_engine_arg needs params.arg: max_num_seqs")
		} else if arg != "max_num_seqs" {
			add("params.arg", "set_engine_arg can set only max_num_seqs (Paramedic translates it for each engine), not %q",
				arg)
		}
		if d := r.Params["direction"]; d != "lower" && d != "raise" {
			add("params.direction", "set_engine_arg needs params.direction: lower or raise, not %q", d)
		}
	case ActionRestartWorker:
		allowed = []string{"drain"}
		if d, given := r.Params["drain"]; given {
			if wait, err := time.ParseDuration(d); err != nil || wait <= 0 {
				add("params.drain", "params.drain %q has to be a duration such as 30s: the time for running requests to end", d)
			}
		}
	default:
		add("action", "action %q is not one of %s; omit it if a person has to take the step", r.Action,
			strings.Join(Actions(), ", "))
		return
	}
	for k := range r.Params {
		if !slices.Contains(allowed, k) {
			add("params."+k, "unknown parameter %q of action %q", k, r.Action)
		}
	}
}

// hasSection reports whether the body has a level-two heading of that name, outside code.
func hasSection(body, name string) bool {
	code := false
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if rest, ok := strings.CutPrefix(line, "## "); ok && !code && strings.EqualFold(strings.TrimSpace(rest), name) {
			return true
		}
	}
	return false
}
