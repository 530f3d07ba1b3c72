package config

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"paramedic/webhook/access"
)

// auth checks how clients authenticate, and the listener's certificate.
func (v *validator) auth(c *Config) {
	am := func(key ...string) []string { return append([]string{"auth", "alertmanager"}, key...) }
	basic := c.Auth.Alertmanager.BasicAuth
	if (basic.Username == "") != (basic.PasswordFile == "") {
		v.at(am("basic_auth"), "needs both username and password_file")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		v.at([]string{"tls"}, "needs both cert_file and key_file")
	}
	if c.Auth.Alertmanager.ClientCAFile != "" && c.TLS.CertFile == "" {
		v.at(am("client_ca_file"), "has no use without TLS: set tls.cert_file and tls.key_file")
	}
	v.secret(am("bearer_token_file"), c.Auth.Alertmanager.BearerTokenFile)
	v.secret(am("basic_auth", "password_file"), basic.PasswordFile)
	ca := v.readable(am("client_ca_file"), c.Auth.Alertmanager.ClientCAFile)
	cert, key := v.readable([]string{"tls", "cert_file"}, c.TLS.CertFile), v.readable([]string{"tls", "key_file"},
		c.TLS.KeyFile)
	if cert && key && (ca || c.Auth.Alertmanager.ClientCAFile == "") {
		if _, err := LoadTLS(*c); err != nil {
			v.at([]string{"tls"}, "cannot be used: %s", strings.TrimPrefix(err.Error(), "tls: "))
		}
	}
	if v.readable([]string{"auth", "api", "tokens_file"}, c.Auth.API.TokensFile) {
		v.tokens(c.Auth.API.TokensFile)
	}
}

// nats checks the servers and the files for an external NATS.
func (v *validator) nats(c *NATSConfig) {
	key := func(k string) []string { return []string{"state", "nats", k} }
	if !areServers(c.URL) {
		v.at(key("url"), "is no list of servers such as nats://nats-0:4222,nats://nats-1:4222: write a comma in a password as %%2C")
	}
	for _, f := range []struct{ key, file string }{{"credentials_file", c.CredentialsFile}, {"ca_file", c.CAFile},
		{"cert_file", c.CertFile}, {"key_file", c.KeyFile}} {
		if f.file != "" && c.URL == "" {
			v.at(key(f.key), "has no use without state.nats.url: set that, or remove this line")
		}
	}
	v.readable(key("credentials_file"), c.CredentialsFile)
	if v.readable(key("ca_file"), c.CAFile) {
		if _, err := authorities(c.CAFile); err != nil {
			v.at(key("ca_file"), "%v", err)
		}
	}
	cert, private := v.readable(key("cert_file"), c.CertFile), v.readable(key("key_file"), c.KeyFile)
	if (c.CertFile == "") != (c.KeyFile == "") {
		v.at([]string{"state", "nats"}, "needs both cert_file and key_file")
	}
	if cert && private {
		if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
			v.at(key("cert_file"), "cannot be used with key_file: %s", strings.TrimPrefix(err.Error(), "tls: "))
		}
	}
}

// areServers reports whether a comma-separated list has servers only. A comma in a password splits
// it into parts that are none, and these would be shown as host names.
func areServers(list string) bool {
	for i, server := range strings.Split(list, ",") {
		server = strings.TrimSpace(server)
		scheme := strings.Contains(server, "://")
		switch {
		case server == "": // the client skips it
			continue
		case !scheme:
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		if err != nil || u.Hostname() == "" || u.User != nil && i > 0 && !scheme {
			return false
		}
	}
	return true
}

// tokens reports the problems of the tokens file, with the lines of that file.
func (v *validator) tokens(path string) {
	_, err := access.LoadTokens(path)
	var wrong *access.TokensError
	switch {
	case errors.As(err, &wrong):
		v.problems = append(v.problems, wrong.Problems...)
	case err != nil:
		v.at([]string{"auth", "api", "tokens_file"}, "%v", err)
	}
}

// stateDir reports a path that cannot be the embedded store's directory. A path that does not exist
// is valid: the store creates it.
func (v *validator) stateDir(c *Config) {
	dir := c.EmbeddedDir()
	if dir == "" {
		return
	}
	st, err := os.Stat(dir)
	switch {
	case err == nil && !st.IsDir():
		v.at([]string{"state", "dir"}, "%q is a file: name a directory", dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		v.at([]string{"state", "dir"}, "cannot be used: %v", err)
	}
}

var envRef = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// secret reports a referenced file or environment variable that is missing or empty. The bot reads
// it again whenever it needs it.
func (v *validator) secret(path []string, name string) {
	m := envRef.FindStringSubmatch(name)
	if m == nil {
		v.readable(path, name)
		return
	}
	switch value, set := os.LookupEnv(m[1]); {
	case !set:
		v.at(path, "environment variable %s is not set", m[1])
	case strings.TrimSpace(value) == "":
		v.at(path, "environment variable %s is empty", m[1])
	}
}

// readable reports a file that is unreadable or empty. It returns whether the file is usable.
func (v *validator) readable(path []string, name string) bool {
	if name == "" {
		return false
	}
	raw, err := os.ReadFile(name)
	switch {
	case err != nil:
		v.at(path, "cannot be read: %v", err)
	case len(bytes.TrimSpace(raw)) == 0:
		v.at(path, "%s is empty", filepath.Clean(name))
	default:
		return true
	}
	return false
}
