package wording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	html "html/template"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	gotext "text/template"
	"text/template/parse"

	"github.com/prometheus/alertmanager/template"

	"paramedic/internal/userfile"
)

// The names of the templates that are used.
const (
	SlackTitle       = "paramedic.slack.title"
	SlackText        = "paramedic.slack.text"
	SlackFooter      = "paramedic.slack.footer"
	PagerDutySummary = "paramedic.pagerduty.summary"
	PagerDutyDetails = "paramedic.pagerduty.details"
	Links            = "paramedic.links"
)

// Names lists the templates that are used.
var Names = []string{SlackTitle, SlackText, SlackFooter, PagerDutySummary, PagerDutyDetails, Links}

// The bounds of loading.
const (
	maxFiles    = 100
	maxFileSize = 256 << 10
)

// A Problem is a fault in a template, with its file and line if they are known.
type Problem struct {
	File string
	Line int
	Text string
}

// String returns file:line: text.
func (p Problem) String() string {
	if p.Line == 0 {
		return strings.TrimSpace(p.File + " " + p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Templates holds the operator's templates. It is safe for concurrent use.
type Templates struct {
	set *gotext.Template
	log *slog.Logger
}

// These functions are inserted into the operator's templates: stepName at the beginning of each
// loop's body, enterName and leaveName at both ends of a template, and weighName after each call of
// a method with arguments.
const (
	stepName  = "paramedic_step"
	enterName = "paramedic_enter"
	leaveName = "paramedic_leave"
	weighName = "paramedic_weigh"
)

// Load parses the files that match the patterns, and reports every problem in them. The templates
// are nil if there is a problem.
func Load(patterns []string, log *slog.Logger) (*Templates, []Problem) {
	if len(patterns) == 0 {
		return nil, nil
	}
	l := &loader{own: map[string]string{}, named: map[string]bool{}}
	paths := l.paths(patterns)
	capture := func(t *gotext.Template, _ *html.Template) {
		b := &budget{ctx: context.Background(), escape: plain}
		l.set = t.Funcs(b.counters())
	}
	if _, err := template.FromGlobs(nil, capture); err != nil { // Alertmanager's own templates, which may be called
		return nil, []Problem{{Text: err.Error()}}
	}
	for _, path := range paths {
		l.parse(path)
	}
	l.names()
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	t := &Templates{set: l.set, log: log}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if err := l.count(); err != nil {
		return nil, []Problem{{Text: err.Error()}}
	}
	l.try(t)
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return t, nil
}

// A loader collects templates and problems.
type loader struct {
	set      *gotext.Template
	own      map[string]string // the operator's files
	named    map[string]bool   // those that the configuration names without a pattern
	problems []Problem
}

func (l *loader) problem(file string, line int, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: file, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (l *loader) paths(patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		switch {
		case err != nil:
			l.problem(pattern, 0, "is not a pattern of files: %v", err)
		case len(found) == 0:
			l.problem(pattern, 0, "matches no file")
		}
		for _, path := range found {
			l.named[path] = l.named[path] || path == pattern
			if !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	if len(out) > maxFiles {
		l.problem(patterns[0], 0, "the patterns match %d files, and %d is the most", len(out), maxFiles)
		return out[:maxFiles]
	}
	return out
}

// parse adds a file's templates to the set. They replace earlier ones with the same name.
func (l *loader) parse(path string) {
	raw, err := l.read(path)
	if err != nil {
		l.problem(path, 0, "%v", err)
		return
	}
	l.own[path] = string(raw)
	file, err := l.set.New(path).Parse(string(raw))
	if err != nil {
		l.located(err)
		return
	}
	// Alertmanager knows a file by this name
	if _, err := l.set.AddParseTree(filepath.Base(path), file.Tree); err != nil {
		l.problem(path, 0, "%v", err)
	}
}

// read returns a file's content. A file that the configuration names itself may be a link to
// anywhere; one that a pattern finds in a directory may not lead out of it.
func (l *loader) read(path string) ([]byte, error) {
	if l.named[path] {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, err
		}
		path = target
	}
	return userfile.Read(filepath.Dir(path), filepath.Base(path), maxFileSize)
}

// located records a template's error with its file and line, which it reads from the library's
// error text.
func (l *loader) located(err error) {
	said := strings.TrimPrefix(err.Error(), "template: ")
	for path := range l.own {
		rest, ok := strings.CutPrefix(said, path+":")
		if !ok {
			continue
		}
		number, rest, _ := strings.Cut(rest, ":")
		line, _ := strconv.Atoi(number)
		if column, after, ok := strings.Cut(rest, ": "); ok {
			if _, err := strconv.Atoi(column); err == nil {
				rest = after
			}
		}
		l.problem(path, line, "%s", strings.TrimSpace(rest))
		return
	}
	l.problem("", 0, "%s", said)
}

// names checks that defined templates are used and that called templates are defined.
func (l *loader) names() {
	used := 0
	for _, t := range l.set.Templates() {
		if t.Tree == nil || t.Tree.Root == nil {
			continue
		}
		source, own := l.own[t.ParseName]
		if !own || t.Name() == filepath.Base(t.ParseName) {
			continue
		}
		line := func(pos parse.Pos) int { return 1 + strings.Count(source[:min(int(pos), len(source))], "\n") }
		switch {
		case slices.Contains(Names, t.Name()):
			used++
		case strings.HasPrefix(t.Name(), "paramedic."):
			l.problem(t.ParseName, line(t.Root.Pos), "there is no use for a template named %q: those are %s",
				t.Name(), strings.Join(Names, ", "))
		}
		walk(t.Root, func(n parse.Node) {
			switch n := n.(type) {
			case *parse.TemplateNode:
				if l.set.Lookup(n.Name) == nil {
					l.problem(t.ParseName, line(n.Pos), "template %q is called and not defined", n.Name)
				}
			case *parse.TextNode:
				n.Text = withOwnMentions(n.Text)
			}
		})
	}
	if used == 0 && len(l.problems) == 0 {
		for path := range l.own {
			l.problem(path, 0, "nothing here would be used: define at least one of %s", strings.Join(Names, ", "))
		}
	}
	slices.SortFunc(l.problems,
		func(a, b Problem) int { return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
}

// walk visits every node of a list.
func walk(list *parse.ListNode, visit func(parse.Node)) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		visit(n)
		if b := branch(n); b != nil {
			walk(b.List, visit)
			walk(b.ElseList, visit)
		}
	}
}

func branch(n parse.Node) *parse.BranchNode {
	switch n := n.(type) {
	case *parse.IfNode:
		return &n.BranchNode
	case *parse.RangeNode:
		return &n.BranchNode
	case *parse.WithNode:
		return &n.BranchNode
	}
	return nil
}

// count inserts the functions that count into every template and every loop's body. So loops and
// templates that call each other are bounded.
func (l *loader) count() error {
	stepper, err := l.set.New(stepName).Parse("{{" + stepName + "}}{{" + enterName + "}}{{" + leaveName + "}}")
	if err != nil {
		return fmt.Errorf("counting steps: %w", err)
	}
	step, enter, leave := stepper.Root.Nodes[0], stepper.Root.Nodes[1], stepper.Root.Nodes[2]
	weigher, err := l.set.New(weighName).Parse("{{" + stepName + " | " + weighName + "}}")
	if err != nil {
		return fmt.Errorf("counting what methods make: %w", err)
	}
	weigh := weigher.Root.Nodes[0].(*parse.ActionNode).Pipe.Cmds[1]
	weighed := map[*parse.PipeNode]bool{}
	done := map[*parse.ListNode]bool{stepper.Root: true} // a file has two names
	put := func(list *parse.ListNode, first parse.Node, last ...parse.Node) {
		if list != nil && !done[list] {
			done[list] = true
			list.Nodes = append(slices.Insert(list.Nodes, 0, first.Copy()), last...)
		}
	}
	for _, t := range l.set.Templates() {
		if t.Tree == nil || t.Tree.Root == nil {
			continue
		}
		var loops []*parse.ListNode
		walk(t.Root, func(n parse.Node) {
			if r, ok := n.(*parse.RangeNode); ok {
				loops = append(loops, r.List)
			}
		})
		walk(t.Root, func(n parse.Node) { weighCalls(n, weigh, weighed) })
		put(t.Root, enter, leave.Copy())
		for _, list := range loops {
			put(list, step)
		}
	}
	return nil
}

// weighCalls inserts the function that counts bytes after every call of a method with an argument.
// A time's Format turns one character into two, and templates can pass its own result to it.
func weighCalls(n parse.Node, weigh *parse.CommandNode, done map[*parse.PipeNode]bool) {
	switch n := n.(type) {
	case *parse.ActionNode:
		weighCalls(n.Pipe, weigh, done)
	case *parse.TemplateNode:
		weighCalls(n.Pipe, weigh, done)
	case *parse.ChainNode:
		weighCalls(n.Node, weigh, done)
	case *parse.PipeNode:
		if n == nil || done[n] {
			return
		}
		done[n] = true
		var cmds []*parse.CommandNode
		for i, cmd := range n.Cmds {
			for _, arg := range cmd.Args {
				weighCalls(arg, weigh, done)
			}
			cmds = append(cmds, cmd)
			switch cmd.Args[0].(type) {
			case *parse.FieldNode, *parse.VariableNode, *parse.ChainNode:
				if len(cmd.Args) > 1 || i > 0 {
					cmds = append(cmds, weigh.Copy().(*parse.CommandNode))
				}
			}
		}
		n.Cmds = cmds
	default:
		if b := branch(n); b != nil {
			weighCalls(b.Pipe, weigh, done)
		}
	}
}

// try renders every template once with a sample, so that a field that does not exist is found at
// loading.
func (l *loader) try(t *Templates) {
	for _, name := range Names {
		if t.set.Lookup(name) == nil {
			continue
		}
		_, err := t.render(context.Background(), name, plain, sample(), sampleTime)
		var exec gotext.ExecError
		switch {
		case err != nil && errors.As(err, &exec):
			if over := bound(err); over != nil { // found by a call that is in no file
				l.overrun(exec.Name, over)
				continue
			}
			l.located(exec)
		case err != nil:
			l.problem(t.set.Lookup(name).ParseName, 0, "%s: %v", name, err)
		}
	}
}

// overrun records that a template exceeds a bound, at the line where it begins.
func (l *loader) overrun(name string, err error) {
	t := l.set.Lookup(name)
	source := l.own[t.ParseName]
	l.problem(t.ParseName, 1+strings.Count(source[:min(int(t.Root.Pos), len(source))], "\n"), "%s: %v", name, err)
}
