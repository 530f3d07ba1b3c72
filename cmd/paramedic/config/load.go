package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/internal/strictyaml"
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

// format is the format of paramedic.yaml.
var format = strictyaml.Format[Config]{Kinds: map[reflect.Type]string{reflect.TypeFor[Config](): "the configuration"}}

// Parse decodes a file strictly and validates it. Its error is an *Error with every problem.
func Parse(file string, raw []byte) (Config, error) {
	cfg := Default()
	v := &validator{file: file}
	v.doc, v.problems = format.ReadInto(&cfg, file, raw)
	if !v.doc.Broken {
		v.config(&cfg)
	}
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
	doc      strictyaml.Document
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

// at adds a problem at a key, given as its path. Items of lists are numbers.
func (v *validator) at(path []string, format string, args ...any) {
	v.problems = append(v.problems, Problem{File: v.file, Line: v.doc.Line(path...), Text: keyPath(path) + ": " +
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
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" &&
		(u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "") {
		v.at([]string{"public_url"}, "has a path, a query or a fragment, and the pages are at the top of their host: use %s://%s",
			u.Scheme, u.Host)
	}
	if c.State.Dir == "" && c.State.NATS.URL == "" {
		v.at([]string{"state", "dir"}, "is empty: name a directory, or set state.nats.url")
	}
	v.stateDir(c)
	v.nats(&c.State.NATS)
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
	if c.Triage.StaleAfter.D() < time.Hour {
		v.at([]string{"triage", "stale_after"}, "must be at least 1h: Alertmanager repeats an alert that fires only every repeat_interval")
	}
	v.auth(c)
	v.clusters(c.Clusters)
	v.notify(c.Notify)
	v.remediate(c.Remediate)
	v.tracing(c.Tracing)
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
