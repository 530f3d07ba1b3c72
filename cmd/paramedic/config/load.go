package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"paramedic/internal/strictyaml"
	"paramedic/internal/text"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// A Problem is one mistake in the configuration or in a file that it names.
type Problem = strictyaml.Problem

// An Error holds every problem of a configuration file.
type Error struct{ Problems []Problem }

// Error returns the problems, one on each line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Load reads, decodes and validates a configuration file. If the path is empty, it returns the
// defaults.
func Load(path string) (Config, error) {
	if path == "" {
		return Default(), nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(path, raw)
}

// Parse decodes a file strictly and validates it. Its error is an *Error with every problem.
func Parse(file string, raw []byte) (Config, error) {
	cfg := Default()
	v := &validator{file: file}
	if err := yaml.Unmarshal(raw, &v.root); err != nil {
		v.decodeError(err)
		for i := range v.problems {
			v.problems[i].Text = "this is not YAML: " + v.problems[i].Text
			v.problems[i].Line = max(v.problems[i].Line, 1) // the scanner omits the number of line 1
		}
		return cfg, v.err()
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&cfg); err != nil && !errors.Is(err, io.EOF) {
		v.decodeError(err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		v.problems = append(v.problems,
			Problem{File: file, Line: more.Line, Text: "this is a second document: move its keys above the line ---, and remove that line"})
	}
	v.config(&cfg)
	return cfg, v.err()
}

// Validate checks a configuration that comes from no file. Its problems have no lines.
func Validate(file string, cfg *Config) error {
	v := &validator{file: file}
	v.config(cfg)
	return v.err()
}

// A validator collects problems, each with the line of its key.
type validator struct {
	file     string
	root     yaml.Node
	problems []Problem
	known    []state.Cause // nil if the rules in triage.rules_dir are invalid
}

func (v *validator) err() error {
	if len(v.problems) == 0 {
		return nil
	}
	// the configuration's own first, then those of the files that it names
	slices.SortStableFunc(v.problems, func(x, y Problem) int {
		other := func(p Problem) string {
			if p.File == v.file {
				return ""
			}
			return p.File
		}
		return cmp.Or(strings.Compare(other(x), other(y)), cmp.Compare(x.Line, y.Line))
	})
	return &Error{Problems: slices.Compact(v.problems)}
}

// wrongKind matches the decoder's error for a value of another kind than its key takes. The value
// may have line breaks.
var wrongKind = regexp.MustCompile("(?s)^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.*)$")

// given returns the words for a value of the file.
func given(kind, value string) string {
	switch {
	case value != "":
		return strconv.Quote(value)
	case kind == "seq":
		return "a list"
	case kind == "map":
		return "a group of keys"
	}
	return "another kind of value"
}

// wanted returns the words for what a file writes for a Go type.
func wanted(goType string) string {
	switch goType := strings.TrimLeft(goType, "*"); {
	case strings.HasPrefix(goType, "[]"), strings.HasPrefix(goType, "config.List["):
		return "a list"
	case goType == "string":
		return "text"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"):
		return "a whole number"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case strings.HasPrefix(goType, "config."):
		return "a group of keys (key: value)"
	}
	return "text"
}

// quotedFirst matches the quoted value at the beginning of an error.
var quotedFirst = regexp.MustCompile(`^"(?:[^"\\]|\\.)*"`)

// keyOf returns the key of a value on a line. It is empty if several keys have that value, or none.
func keyOf(node *yaml.Node, line int, value string) string {
	found, more := "", false
	var walk func(n *yaml.Node, path []string)
	walk = func(n *yaml.Node, path []string) {
		switch n.Kind {
		case yaml.DocumentNode:
			for _, child := range n.Content {
				walk(child, path)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(n.Content[i+1], append(slices.Clone(path), n.Content[i].Value))
			}
		case yaml.SequenceNode:
			for i, child := range n.Content {
				walk(child, append(slices.Clone(path), strconv.Itoa(i)))
			}
		case yaml.ScalarNode:
			if n.Line == line && n.Value == value && len(path) > 0 {
				more = found != ""
				found = keyPath(path)
			}
		}
	}
	if walk(node, nil); more {
		return ""
	}
	return found
}

// keysOfType returns the keys of a group of the configuration, by the name of its Go type.
func keysOfType(goType string) []string {
	var keys []string
	var walk func(t reflect.Type, inside bool)
	walk = func(t reflect.Type, inside bool) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || keys != nil && !inside {
			return
		}
		inside = inside || t.String() == goType
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			switch {
			case inside && name == "":
				walk(f.Type, true)
			case inside:
				keys = append(keys, name)
			default:
				walk(f.Type, false)
			}
		}
	}
	walk(reflect.TypeFor[Config](), false)
	return keys
}

// decodeError turns the decoder's errors into problems. It replaces the names of Go types by words
// for what a file holds.
func (v *validator) decodeError(err error) {
	var many *yaml.TypeError
	texts := []string{err.Error()}
	if errors.As(err, &many) {
		texts = many.Errors
	}
	for _, message := range texts {
		p := Problem{File: v.file}
		p.Line, p.Text = strictyaml.Position(message)
		if name, goType, ok := strings.Cut(strings.TrimPrefix(p.Text, "field "), " not found in type "); ok {
			p.Text = fmt.Sprintf("unknown key %q; %s", name, text.DidYouMean(name, keysOfType(goType)))
		}
		if m := wrongKind.FindStringSubmatch(p.Text); m != nil {
			p.Text = fmt.Sprintf("%s is not %s", given(m[1], m[2]), wanted(m[3]))
		}
		if quoted := quotedFirst.FindString(p.Text); quoted != "" {
			if value, err := strconv.Unquote(quoted); err == nil {
				if key := keyOf(&v.root, p.Line, value); key != "" {
					p.Text = key + ": " + p.Text
				}
			}
		}
		p.Text = strings.ReplaceAll(p.Text, "!!", "")
		v.problems = append(v.problems, p)
	}
}

// at adds a problem at a key, given as its path. Items of lists are numbers.
func (v *validator) at(path []string, format string, args ...any) {
	v.problems = append(v.problems, Problem{File: v.file, Line: v.line(path), Text: keyPath(path) + ": " +
		fmt.Sprintf(format, args...)})
}

// keyPath returns a path in the usual form: clusters[0].name.
func keyPath(path []string) string {
	var b strings.Builder
	for i, part := range path {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(part)
	}
	return b.String()
}

// line returns the line of the deepest part of the path that the file has.
func (v *validator) line(path []string) int {
	line, _ := v.find(path)
	return line
}

// node returns the value at a path, or nil if the file has none.
func (v *validator) node(path []string) *yaml.Node {
	_, node := v.find(path)
	return node
}

// find returns the line of the deepest part of the path that the file has, and the value there if
// that is the whole path.
func (v *validator) find(path []string) (line int, at *yaml.Node) {
	if len(v.root.Content) == 0 {
		return 0, nil
	}
	node := v.root.Content[0]
	for _, part := range path {
		next := (*yaml.Node)(nil)
		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == part {
					next, line = node.Content[i+1], node.Content[i].Line
				}
			}
		case yaml.SequenceNode:
			if n, err := strconv.Atoi(part); err == nil && n < len(node.Content) {
				next, line = node.Content[n], node.Content[n].Line
			}
		}
		if next == nil {
			return line, nil
		}
		node = next
	}
	return line, node
}

func (v *validator) config(c *Config) {
	v.known = knownCauses(c.Triage.RulesDir)
	host, port, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		v.at([]string{"listen"}, "%q is not host:port, such as 127.0.0.1:8080", c.Listen)
	case !Loopback(host):
		v.beyondLoopback(c)
	}
	if _, wrong := net.LookupPort("tcp", port); err == nil && wrong != nil {
		v.at([]string{"listen"}, "port %q is not a number from 0 to 65535", port)
	}
	v.url([]string{"public_url"}, c.PublicURL)
	if c.State.Dir == "" && c.State.NATS.URL == "" {
		v.at([]string{"state", "dir"}, "is empty: name a directory, or set state.nats.url")
	}
	v.stateDir(c)
	if r := c.State.NATS.Replicas; c.State.NATS.URL != "" && (r < 1 || r > 5) {
		v.at([]string{"state", "nats", "replicas"}, "is %d: it must be from 1 to 5", r)
	}
	aid := c.Remediation(policy.Timing{})
	if least := aid.Horizon(); c.State.Retain.D() < least {
		v.at([]string{"state", "retain"},
			"must be at least %s, because the guards of first aid look back that far (rollout_window, cooldown, "+
				"actions per day)", state.FormatDuration(least))
	}
	if c.Triage.MaxLag.D() < 5*time.Second {
		v.at([]string{"triage", "max_lag"}, "must be at least 5s: a shorter one refuses the payloads of an ordinary alert storm")
	}
	v.auth(c)
	v.clusters(c.Clusters)
	v.notify(c.Notify)
	v.remediate(c.Remediate)
	v.references(c)
	for key, dir := range map[string]string{"triage.rules_dir": c.Triage.RulesDir, "playbooks.dir": c.Playbooks.Dir} {
		if dir == "" {
			continue
		}
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			v.at(strings.Split(key, "."), "%q is not a directory", dir)
		}
	}
}

// Loopback reports whether a host is this machine's loopback.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// beyondLoopback reports missing authentication if other machines can reach the bot.
func (v *validator) beyondLoopback(c *Config) {
	am := c.Auth.Alertmanager
	if am.BearerTokenFile == "" && am.BasicAuth.Username == "" && am.ClientCAFile == "" {
		v.at([]string{"listen"}, "other machines can reach %s, but auth.alertmanager is not configured: set "+
			"auth.alertmanager.bearer_token_file, basic_auth or client_ca_file", c.Listen)
	}
	if c.Auth.API.TokensFile == "" {
		v.at([]string{"listen"}, "other machines can reach %s, but the API has no tokens: set auth.api.tokens_file", c.Listen)
	}
}

func (v *validator) url(path []string, raw string) {
	if raw == "" {
		return
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		v.at(path, "must be an http:// or https:// URL, such as http://127.0.0.1:9090") // raw may hold a password
	case u.User != nil:
		v.at(path, "must not contain a user or a password: use a *_file key")
	}
}
