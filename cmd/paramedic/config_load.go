package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Problem is one thing that is wrong in a file, where it is known with its line.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

// String is file:line: text.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// A ConfigError is every problem of a configuration file at once.
type ConfigError struct{ Problems []Problem }

// Error lists the problems, a line each.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// LoadConfig reads, decodes and validates a configuration file. An empty path gives the defaults.
func LoadConfig(path string) (Config, error) {
	if path == "" {
		return DefaultConfig(), nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return ParseConfig(path, raw)
}

// ParseConfig decodes strictly and validates; the error is a *ConfigError with every problem.
func ParseConfig(file string, raw []byte) (Config, error) {
	cfg := DefaultConfig()
	v := &validator{file: file}
	if err := yaml.Unmarshal(raw, &v.root); err != nil {
		v.decodeError(err)
		return cfg, v.err()
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&cfg); err != nil && !errors.Is(err, io.EOF) {
		v.decodeError(err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		v.problems = append(v.problems, Problem{File: file, Line: more.Line, Text: "a second document: everything has to be in the first"})
	}
	v.config(&cfg)
	return cfg, v.err()
}

// A validator gathers problems, with the line of the key that each is about.
type validator struct {
	file     string
	root     yaml.Node
	problems []Problem
	ownRules bool // triage.rules_dir is set: there may be more causes than the built-in ones
}

func (v *validator) err() error {
	if len(v.problems) == 0 {
		return nil
	}
	sort.SliceStable(v.problems, func(i, j int) bool { return v.problems[i].Line < v.problems[j].Line })
	return &ConfigError{Problems: slices.Compact(v.problems)}
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// decodeError turns the decoder's errors into problems, in the words of the file and not of Go's types.
func (v *validator) decodeError(err error) {
	var many *yaml.TypeError
	texts := []string{err.Error()}
	if errors.As(err, &many) {
		texts = many.Errors
	}
	for _, text := range texts {
		p := Problem{File: v.file, Text: strings.TrimPrefix(text, "yaml: ")}
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			p.Line, _ = strconv.Atoi(m[1])
			p.Text = m[2]
		}
		if name, _, ok := strings.Cut(strings.TrimPrefix(p.Text, "field "), " not found in type "); ok {
			p.Text = fmt.Sprintf("unknown key %q", name)
		}
		p.Text = strings.ReplaceAll(p.Text, "!!", "")
		v.problems = append(v.problems, p)
	}
}

// at notes a problem at a key, given as its path; list items are numbers.
func (v *validator) at(path []string, format string, args ...any) {
	v.problems = append(v.problems, Problem{File: v.file, Line: v.line(path), Text: strings.Join(path, ".") + ": " + fmt.Sprintf(format, args...)})
}

// line is the line of the deepest part of the path that the file has.
func (v *validator) line(path []string) int {
	if len(v.root.Content) == 0 {
		return 0
	}
	node, line := v.root.Content[0], 0
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
			break
		}
		node = next
	}
	return line
}

func (v *validator) config(c *Config) {
	v.ownRules = c.Triage.RulesDir != ""
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		v.at([]string{"listen"}, "%q is not host:port", c.Listen)
	} else if !loopback(host) {
		v.beyondLoopback(c)
	}
	v.url([]string{"public_url"}, c.PublicURL)
	if c.State.Dir == "" && c.State.NATS.URL == "" {
		v.at([]string{"state", "dir"}, "must name a directory, unless state.nats.url is set")
	}
	if r := c.State.NATS.Replicas; c.State.NATS.URL != "" && (r < 1 || r > 5) {
		v.at([]string{"state", "nats", "replicas"}, "must be 1 to 5, not %d", r)
	}
	if c.State.Retain.D() < time.Hour {
		v.at([]string{"state", "retain"}, "must be at least 1h, so that open incidents outlive a restart")
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

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// beyondLoopback demands authentication where others can reach the bot.
func (v *validator) beyondLoopback(c *Config) {
	am := c.Auth.Alertmanager
	if am.BearerTokenFile == "" && am.BasicAuth.Username == "" && am.ClientCAFile == "" {
		v.at([]string{"listen"}, "%s is reachable from elsewhere, but auth.alertmanager is not configured: set auth.alertmanager.bearer_token_file, basic_auth or client_ca_file", c.Listen)
	}
	if c.Auth.API.TokensFile == "" {
		v.at([]string{"listen"}, "%s is reachable from elsewhere, but nobody could authenticate to the API: set auth.api.tokens_file", c.Listen)
	}
}

func (v *validator) auth(c *Config) {
	am := []string{"auth", "alertmanager"}
	basic := c.Auth.Alertmanager.BasicAuth
	if (basic.Username == "") != (basic.PasswordFile == "") {
		v.at(append(am, "basic_auth"), "needs both username and password_file")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		v.at([]string{"tls"}, "needs both cert_file and key_file")
	}
	if c.Auth.Alertmanager.ClientCAFile != "" && c.TLS.CertFile == "" {
		v.at(append(am, "client_ca_file"), "client certificates need tls.cert_file and tls.key_file")
	}
	v.reference(append(am, "bearer_token_file"), c.Auth.Alertmanager.BearerTokenFile)
	v.reference(append(am, "basic_auth", "password_file"), basic.PasswordFile)
	v.reference(append(am, "client_ca_file"), c.Auth.Alertmanager.ClientCAFile)
	v.reference([]string{"auth", "api", "tokens_file"}, c.Auth.API.TokensFile)
	v.reference([]string{"tls", "cert_file"}, c.TLS.CertFile)
	v.reference([]string{"tls", "key_file"}, c.TLS.KeyFile)
	v.reference([]string{"state", "nats", "credentials_file"}, c.State.NATS.CredentialsFile)
}

var envRef = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// reference checks that a referenced file, or environment variable, is there. What it holds is read when it is needed.
func (v *validator) reference(path []string, name string) {
	if name == "" {
		return
	}
	if m := envRef.FindStringSubmatch(name); m != nil {
		if os.Getenv(m[1]) == "" {
			v.at(path, "the environment variable %s is not set", m[1])
		}
		return
	}
	if _, err := os.Stat(name); err != nil {
		v.at(path, "cannot be read: %v", err)
	}
}

func (v *validator) url(path []string, raw string) {
	if raw == "" {
		return
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		v.at(path, "must be an http:// or https:// URL")
	case u.User != nil:
		v.at(path, "must not carry a password: use a *_file key")
	}
}
