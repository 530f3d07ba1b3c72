package backtest

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func quietPast(from time.Time) *past {
	p := newPast()
	for at := from; !at.After(end); at = at.Add(time.Minute) {
		p.add("up", map[string]string{"job": "prometheus"}, at, 1)
	}
	return p
}

// Each error must name what to do.
func TestRunSaysWhatToDo(t *testing.T) {
	dead := httptest.NewServer(nil)
	dead.Close()
	for name, c := range map[string]struct {
		url  string
		want []string
	}{
		"no server":     {dead.URL, []string{"nothing listens there", "kubectl port-forward"}},
		"no alerts":     {quietPast(end.Add(-7 * time.Hour)).serve(t), []string{"there is no alert between 2026-11-21 03:00 UTC and", `ALERTS{alertstate="firing"}`, "ruler"}},
		"short history": {quietPast(end.Add(-150 * time.Minute)).serve(t), []string{"no data before 2026-11-21 06:3", "use --since 2h"}},
	} {
		_, err := Run(t.Context(), optionsFor(c.url))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

func TestStateFileOfAnotherRunIsRefused(t *testing.T) {
	url := quietPast(end.Add(-7 * time.Hour)).serve(t)
	o := optionsFor(url)
	o.State = filepath.Join(t.TempDir(), "state.json")
	b, err := newBacktest(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.piece(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		"--prometheus " + url:   func(o *Options) { o.URL = "http://other:9090" },
		"--since 6h":            func(o *Options) { o.Since = time.Hour },
		"cluster default":       func(o *Options) { o.Cluster = "eu" },
		"another configuration": func(o *Options) { o.Config.Remediate.Mode = "auto" },
	} {
		other := o
		change(&other)
		if _, err := Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := os.WriteFile(o.State, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is no state file") {
		t.Error(err)
	}
}

func TestOptionsReadFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "paramedic.yaml")
	if err := os.WriteFile(file, []byte("clusters:\n- {name: eu, prometheus: {url: http://eu:9090}}\n- {name: us, prometheus: {url: http://us:9090}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags flags
		url   string
		want  string // of the error
	}{
		"a URL":          {flags{prometheus: "http://prometheus:9090", since: "7d", rate: 1}, "http://prometheus:9090", ""},
		"first cluster":  {flags{config: file, since: "7d", rate: 1}, "http://eu:9090", ""},
		"other cluster":  {flags{config: file, cluster: "us", since: "7d", rate: 1}, "http://us:9090", ""},
		"no cluster":     {flags{config: file, cluster: "ap", since: "7d", rate: 1}, "", "--cluster ap is not in"},
		"no source":      {flags{since: "7d", rate: 1}, "", "use --prometheus URL"},
		"a bad time":     {flags{prometheus: "http://prometheus:9090", since: "week", rate: 1}, "", `--since "week" is not a time`},
		"a short time":   {flags{prometheus: "http://prometheus:9090", since: "1m", rate: 1}, "", "at least 10m"},
		"no rate":        {flags{prometheus: "http://prometheus:9090", since: "7d"}, "", "--rate 0 must be more than 0"},
		"a bad URL":      {flags{prometheus: "prometheus:9090", since: "7d", rate: 1}, "", "is not an http:// or https:// URL"},
		"with passwords": {flags{prometheus: "http://a:hunter2@b", since: "7d", rate: 1}, "", "without a user or a password"},
	} {
		o, err := c.flags.options(end)
		switch {
		case c.want == "" && (err != nil || o.URL != c.url):
			t.Errorf("%s: %s, %v", name, o.URL, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestMeterLogsTenths(t *testing.T) {
	var out strings.Builder
	now := end
	m := newMeter(&out, func() time.Time { return now })
	for i := 1; i <= 100; i++ {
		now = now.Add(time.Second)
		m.show(Progress{From: end, At: end.Add(time.Duration(i) * time.Hour), To: end.Add(100 * time.Hour), Alerts: i, Queries: 1})
	}
	m.end()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 10 || lines[0] != "10 %: until 2026-11-21 19:00 UTC, 10 alerts, 0 incidents, 1 query, 1m30s left" {
		t.Errorf("%d lines: %s", len(lines), out.String())
	}
}
