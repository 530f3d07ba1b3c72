package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/cmd/paramedic/transfer"
	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
)

// A place is where a store is, with its configuration file.
type place struct{ dir, url, config string }

func newPlace(t *testing.T, url string) place {
	t.Helper()
	p := place{dir: filepath.Join(t.TempDir(), "data"), url: url}
	text := "state: {dir: " + p.dir + "}\n"
	if url != "" {
		text = "state: {nats: {url: \"" + url + "\", replicas: 1}}\n"
	}
	p.config = filepath.Join(t.TempDir(), "paramedic.yaml")
	text += "listen: 127.0.0.1:0\ntriage: {settle: 10ms, resolve_hold: 10ms}\nclusters: [{name: prod}, {name: stage}]\n"
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// ran runs a command, and returns what it printed and its error.
func ran(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := transfer.Command(transfer.Streams{Out: &out, Err: &out, Logger: func() *slog.Logger { return slog.New(slog.DiscardHandler) }})
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	said, err := ran(args...)
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return said
}

// A bot runs on the store of a place.
type bot struct {
	t      *testing.T
	keeper view
	url    string
	said   *console
	stop   func()
}

type view interface {
	state.View
	Ready(ctx context.Context) error
	OldestDue() (since time.Time, due int)
}

// A console holds what a bot tells people.
type console struct {
	mu sync.Mutex
	bytes.Buffer
}

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Buffer.Write(b)
}

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.String()
}

func (p place) start(t *testing.T) *bot {
	t.Helper()
	cfg, err := config.Load(p.config)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	store, err := jetstream.Open(t.Context(), service.StoreConfig(cfg, log))
	if err != nil {
		t.Fatal(err)
	}
	b := &bot{t: t, said: &console{}}
	s, err := service.New(cfg, service.Deps{Store: store, Clock: state.SystemClock{}, Logger: log, Out: b.said})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	b.keeper, b.url = s.Keeper, server.URL
	b.stop = sync.OnceFunc(func() {
		s.CloseStreams()
		server.Close()
		cancel()
		group.Wait()
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	b.await("the bot is ready", func() bool { return b.keeper.Ready(ctx) == nil })
	return b
}

func (b *bot) await(what string, ok func() bool) {
	b.t.Helper()
	for late := time.After(2 * time.Minute); !ok(); {
		select {
		case <-late:
			b.t.Fatalf("never: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// send delivers alerts, at most a hundred a payload.
func (b *bot) send(alerts []map[string]any) {
	b.t.Helper()
	for part := range slices.Chunk(alerts, 100) {
		body, err := json.Marshal(map[string]any{"version": "4", "groupKey": "{}:{}", "receiver": "paramedic", "alerts": part})
		if err != nil {
			b.t.Fatal(err)
		}
		resp, err := http.Post(b.url+"/webhook/alertmanager", "application/json", bytes.NewReader(body))
		if err != nil {
			b.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.t.Fatal(resp.Status)
		}
	}
}

// evidenceAt matches the time of a finding. An undecided incident is looked at again after 15 s.
var evidenceAt = regexp.MustCompile(`"at":"[^"]*"`)

// incidents returns every incident that the list page shows, with its timeline, as the API shows
// them but for the times of its evidence.
func (b *bot) incidents() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	for path := "/api/v1/incidents?limit=500"; path != ""; {
		var page struct {
			Incidents []json.RawMessage
			Next      *string
		}
		b.get(path, &page)
		path = ""
		if page.Next != nil {
			path = "/api/v1/incidents?limit=500&cursor=" + *page.Next
		}
		for _, raw := range page.Incidents {
			var in struct{ ID string }
			if err := json.Unmarshal(raw, &in); err != nil {
				b.t.Fatal(err)
			}
			var timeline json.RawMessage
			b.get("/api/v1/incidents/"+in.ID+"/timeline", &timeline)
			out[in.ID] = evidenceAt.ReplaceAllString(string(raw), "") + string(timeline)
		}
	}
	return out
}

func (b *bot) get(path string, into any) {
	b.t.Helper()
	resp, err := http.Get(b.url + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		b.t.Fatalf("%s: %v: %.200s", path, err, raw)
	}
}

// settled waits until nothing is due and every incident has shown its newest revision.
func (b *bot) settled(open, all int) {
	b.t.Helper()
	b.await("everything is told of", func() bool {
		tally := b.keeper.Tally()
		if _, due := b.keeper.OldestDue(); due > 0 || tally.Open != open || tally.Open+tally.Resolved != all {
			return false
		}
		page := b.keeper.ListIncidents(state.IncidentQuery{Limit: 1000})
		return !slices.ContainsFunc(page.Incidents, func(in state.Incident) bool {
			return in.DiagnosedAt.IsZero() || slices.ContainsFunc(in.Channels, func(ch state.Channel) bool { return in.Told.Rev(ch) < in.Rev })
		})
	})
}

// storm returns n firing alerts of each pool, or resolved ones.
func storm(pools, n int, at time.Time, over func(pool int) bool) (out []map[string]any) {
	for pool := range pools {
		for i := range n {
			a := map[string]any{"status": "firing", "startsAt": at.Add(-time.Minute), "annotations": map[string]string{"summary": "full"},
				"labels": map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "warning", "cluster": []string{"prod", "stage"}[pool%2],
					"namespace": "llm", "model_name": fmt.Sprintf("m-%d", pool), "pod": fmt.Sprintf("vllm-m%d-6d5f8c7b9-w%04d", pool, i)}}
			if over != nil {
				if !over(pool) {
					continue
				}
				a["status"], a["endsAt"] = "resolved", at
			}
			out = append(out, a)
		}
	}
	return out
}

// filled returns a place with 2,000 alerts in many incidents, half of them resolved. The log has
// lost its oldest inputs, as after state.retain.
func filled(t *testing.T) (place, map[string]string) {
	t.Helper()
	p := newPlace(t, "")
	b := p.start(t)
	const pools, each = 100, 20
	now := time.Now().UTC()
	b.send(storm(pools, each, now, nil))
	b.await("all alerts are part of incidents", func() bool {
		n := 0
		for _, in := range b.keeper.ListIncidents(state.IncidentQuery{Limit: 1000}).Incidents {
			n += in.AlertCount
		}
		return n == pools*each
	})
	all := b.keeper.Tally().Open
	b.settled(all, all)
	b.send(storm(pools, each, now, func(pool int) bool { return pool%2 == 0 }))
	b.await("half of them resolve", func() bool { return b.keeper.Tally().Open <= all/2 })
	b.settled(b.keeper.Tally().Open, all)
	incidents := b.incidents()
	b.stop()
	if len(incidents) < 50 {
		t.Fatalf("only %d incidents", len(incidents))
	}
	if left := natstest.Expire(t, p.dir, 20); left < 20 {
		t.Fatalf("only %d inputs are left", left)
	}
	return p, incidents
}

// body returns the lines of an export between the first and the last. These hold its time.
func body(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	slices.Sort(lines[1 : len(lines)-1]) // the order of records is that of their last write
	return lines[1 : len(lines)-1]
}

// contents returns what is in every file below a directory, or nil if there is none.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		out[path] = string(raw)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return out
}
