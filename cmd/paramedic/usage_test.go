package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestMistypedCommandsAreGuessed(t *testing.T) {
	for typed, want := range map[string]string{
		"incidnets":          "there is no command \"incidnets\": did you mean `paramedic incidents`?",
		"incident list":      "did you mean `paramedic incidents`?",
		"incidents shwo 1":   "there is no command \"shwo\" of `paramedic incidents`: did you mean `paramedic incidents show`?",
		"show 7":             "did you mean `paramedic incidents show` or `paramedic playbooks show` or `paramedic rules show`?",
		"lab scroe":          "did you mean `paramedic lab score`?",
		"hlp":                "there is no command \"hlp\": did you mean `paramedic help`?",
		"xyzzy":              "there is no command \"xyzzy\": `paramedic --help` lists them",
		"help chekc":         "did you mean `paramedic check`?",
		"check --onlin":      "`paramedic check` has no flag --onlin: did you mean --online?",
		"check --confg x":    "did you mean --config?",
		"check p.yaml":       "did you mean --config p.yaml?",
		"silence 1 --for a":  "--for \"a\" is not a time such as 45m",
		"ack 1 --server":     "--server needs a value: address of the bot",
		"tune --avg-tokens=": "--avg-tokens \"\" is not a number",
		"diagnose --prometheus http://a --engine http://b": "use only one of --engine and --prometheus",
		"tune --prompt-tokens 3":                           "--answer-tokens is missing",
		"deny a b": "`paramedic deny` takes one argument, but got 2: \"a\", \"b\". Example: " +
			"`paramedic deny ACT-01J8`",
		"halt prod": "`paramedic halt` takes no argument, but got \"prod\"",
	} {
		says(t, ask(t, exitError, strings.Fields(typed)...), want)
	}
}

// Every command names a missing argument with an example, in its own words and not the library's.
func TestMissingArgumentsAreNamed(t *testing.T) {
	var c cli
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "paramedic ")
		takes := len(strings.Fields(cmd.Use)) > 1 && !strings.ContainsAny(cmd.Use, "([")
		if _, known := arguments[path]; known != takes {
			t.Errorf("%s: takes an argument: %v, and has words for it: %v", cmd.Use, takes, known)
		}
		if !takes {
			return
		}
		for _, args := range [][]string{strings.Fields(path), append(strings.Fields(path), " ")} {
			said := ask(t, exitError, args...)
			says(t, said, "paramedic: an argument is missing. Name ", "Example: `paramedic "+path+" ")
			if regexp.MustCompile(`arg\(s\)|received|unknown command`).MatchString(said) {
				t.Errorf("%s speaks in the library's words: %s", path, said)
			}
		}
	}
	walk(c.root())
}

// The error for a Prometheus without answers names that Prometheus, not engines.
func TestUnreachablePrometheusIsNamed(t *testing.T) {
	answering := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for base, want := range map[string]string{
		gone.URL + "?token=s3cret":  "nothing listens there. Check host and port",
		"http://prometheus.invalid": "host name is not found",
		answering(404):              "this is not a Prometheus query API. Use the part of the URL before /api/v1/query",
		answering(401):              "it needs a login",
		answering(500):              "try `curl ",
	} {
		said := ask(t, exitError, "diagnose", "--prometheus", base)
		says(t, said, "paramedic: the query to Prometheus at "+strings.TrimSuffix(base, "?token=s3cret")+" failed: ", want)
		if strings.Contains(said, "engine") || strings.Contains(said, "s3cret") {
			t.Errorf("%s: %s", base, said)
		}
	}
}

func TestUnreachableBotIsNamed(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	says(t, ask(t, exitError, "incidents", "--server", gone.URL), "the bot at "+gone.URL+" does not answer: ",
		"Check that `paramedic serve` runs there")
}

// The error names what is wrong with the address or the token, and not a bot that may be well.
func TestWrongServerOrTokenIsNamed(t *testing.T) {
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	plain := strings.Replace(tls.URL, "https://", "http://", 1)
	says(t, ask(t, exitError, "incidents", "--server", plain), plain+" does not answer as a bot does: Client sent an HTTP request to an HTTPS server.",
		"with https:// if it has a certificate (400)")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	says(t, ask(t, exitError, "halt", "--server", other.URL), other.URL+" does not answer as a bot does: 404 page not found. Set --server")
	says(t, ask(t, exitError, "incidents", "--server", ""), `--server "" has no host: use an address such as http://127.0.0.1:8080`)
	t.Setenv("PARAMEDIC_TOKEN", "- token: one\n- token: two")
	says(t, ask(t, exitError, "incidents", "--server", other.URL), "PARAMEDIC_TOKEN has a line break")
}
