package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesForNATSAreChecked(t *testing.T) {
	dir := t.TempDir()
	text, empty := filepath.Join(dir, "text"), filepath.Join(dir, "empty")
	for file, body := range map[string]string{text: "no PEM", empty: " "} {
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for nats, want := range map[string]string{
		"{url: tls://nats:4222, ca_file: " + text + "}":        "state.nats.ca_file: " + text + " has no certificate in PEM format",
		"{url: tls://nats:4222, ca_file: " + empty + "}":       "state.nats.ca_file: " + empty + " is empty",
		"{url: tls://nats:4222, ca_file: " + dir + "/none}":    "state.nats.ca_file: cannot be read",
		"{url: tls://nats:4222, cert_file: " + text + "}":      "state.nats: needs both cert_file and key_file",
		"{ca_file: " + text + "}":                              "state.nats.ca_file: has no use without state.nats.url",
		"{url: u, cert_file: FILE, key_file: FILE}":            "state.nats.cert_file: cannot be used with key_file: failed to find any PEM",
		"{url: u, replicas: 1, credentials_file: " + dir + "}": "state.nats.credentials_file: cannot be read",
	} {
		_, err := Parse("paramedic.yaml", []byte("state:\n  nats: "+strings.ReplaceAll(nats, "FILE", text)))
		if err == nil || !strings.Contains(err.Error(), "paramedic.yaml:2: "+want) {
			t.Errorf("%s: %v, want %q", nats, err, want)
		}
	}
}

// A comma in a password would split it, and its parts would be shown as host names.
func TestCommaInNATSPasswordIsRefused(t *testing.T) {
	for url, ok := range map[string]bool{
		"nats://nats-0:4222":                            true,
		"nats-0, nats-1:4222":                           true,
		"tls://user:secret@nats-0:4222,nats://nats-1":   true,
		"nats://user:sec%2Cret@nats-0:4222":             true,
		"nats://user:sec,ret@nats-0:4222":               false,
		"nats://user:4222,ret@nats-0:4222":              false,
		"nats://user:4222,sec:ret@nats-0:4222":          false,
		"nats://nats-0:4222,":                           true,
		"nats://nats-0:4222,nats://user:s,t@nats-1:422": false,
	} {
		_, err := Parse("paramedic.yaml", []byte("state:\n  nats: {url: \""+url+"\"}"))
		if got := err == nil; got != ok {
			t.Errorf("%s: %v, want accepted %v", url, err, ok)
		}
		if err != nil && (!strings.Contains(err.Error(), "%2C") || strings.Contains(err.Error(), "ret@")) {
			t.Errorf("%s: the error must say what to do, without the password: %v", url, err)
		}
	}
}
