package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state/jetstream"
)

// A bot on a directory in use reports that once, and never that it listens.
func TestServeRefusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	store, err := jetstream.Open(context.Background(), jetstream.Config{Dir: filepath.Join(dir, "data"), Retain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	put(t, dir, "paramedic.yaml", []byte("listen: 127.0.0.1:0\nstate: {dir: "+filepath.Join(dir, "data")+"}\n"))
	var stderr bytes.Buffer
	if code := run(context.Background(), []string{"serve", "--config", filepath.Join(dir, "paramedic.yaml")}, io.Discard,
		&stderr); code != exitError {
		t.Errorf("exit code %d", code)
	}
	said := stderr.String()
	if strings.Count(said, "paramedic: opening the state: the state directory") != 1 ||
		!strings.Contains(said, "in use by another Paramedic") {
		t.Errorf("it says %s", said)
	}
	if strings.Contains(said, "listening") || strings.Contains(said, "opening the state: opening") {
		t.Errorf("it reads as if it were up, or repeats itself: %s", said)
	}
}

// After a downgrade the bot ends with the reason, and has touched nothing.
func TestServeRefusesANewerStore(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	stream := filepath.Join(data, "jetstream", "$G", "streams", "PARAMEDIC_STATE")
	if err := os.MkdirAll(stream, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, stream, "meta.inf", []byte(`{"name":"PARAMEDIC_STATE","metadata":{"paramedic-format":"99","paramedic-version":"v9.8.7"}}`))
	put(t, dir, "paramedic.yaml", []byte("listen: 127.0.0.1:0\nstate: {dir: "+data+"}\n"))
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"serve", "--config", filepath.Join(dir, "paramedic.yaml")}, io.Discard, &stderr)
	if code != exitError || !strings.Contains(stderr.String(), "paramedic: opening the state: this store was written by Paramedic v9.8.7 with format 99") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if left, err := os.ReadDir(data); err != nil || len(left) != 1 {
		t.Errorf("the directory has %v: %v", left, err)
	}
}

// While symptoms settle, the bot queries Prometheus for the incident's past: its charts, and the
// hour, the day and the week before.
func TestPastIsReadWhileSymptomsSettle(t *testing.T) {
	var mu sync.Mutex
	var charts int
	var at []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if seconds, err := strconv.ParseFloat(r.FormValue("time"), 64); err == nil {
			at = append(at, time.UnixMilli(int64(1000*seconds)))
		} else {
			charts++
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	}))
	defer server.Close()
	o := newOnCallAfter(t, "1h", "clusters: [{name: default, prometheus: {url: "+server.URL+"}}]\n")
	o.alert(kvFull)
	o.await("the past is asked for", func() bool {
		rec := httptest.NewRecorder()
		o.bot.Handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
		return strings.Contains(rec.Body.String(), `paramedic_effect_duration_seconds_count{channel="",kind="prepare",outcome="done"} 1`)
	})
	mu.Lock()
	defer mu.Unlock()
	onset := o.bot.Keeper.Incidents()[0].StartedAt
	now, past := 0, map[time.Duration]int{}
	for _, m := range at {
		if ago := onset.Sub(m).Round(time.Minute); ago > 0 {
			past[ago]++
		} else {
			now++
		}
	}
	if charts == 0 || past[time.Hour] == 0 || past[24*time.Hour] == 0 || now != 1 {
		t.Errorf("%d charts, %v before the onset, %d of now, where one tells which engines there are", charts, past, now)
	}
}
