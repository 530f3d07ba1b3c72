package prometheus

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"paramedic/rules/enrich/prometheus/query"
	"paramedic/state"
)

func TestAnswersAreReadOrRefused(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"a vector": {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a\"b\u00e9"},"value":[1795291909.5,"0.25"]}]},"warnings":["w"]}`,
			`map[pod:a"bé] 1795291909500=0.25`},
		"a matrix":                     {`{"status":"success","data":{"result":[{"metric":{},"values":[[1,"1e3"],[2,"NaN"],[3,"+Inf"]]}],"resultType":"matrix"}}`, `map[] 1000=1000 2000=NaN 3000=+Inf`},
		"native histograms":            {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"histogram":[1,{"count":"3","buckets":[[0,"1","2","3"]]}]}]}}`, `map[a:b]`},
		"nothing":                      {`{"status":"success","data":{"resultType":"vector","result":[]}}`, ``},
		"null":                         {`{"status":"success","data":{"resultType":"vector","result":null}}`, ``},
		"an error":                     {`{"status":"error","errorType":"execution","error":"query timed out"}`, `! execution: query timed out`},
		"a scalar":                     {`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, `! the answer cannot be read`},
		"a page":                       {`<html>502</html>`, `! the answer cannot be read`},
		"cut short":                    {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,`, `! the answer cannot be read`},
		"a value that is no number":    {`{"status":"success","data":{"result":[{"metric":{},"value":[1,"many"]}]}}`, `! the answer cannot be read`},
		"a number instead of a string": {`{"status":"success","data":{"result":[{"metric":{"a":1},"value":[1,"1"]}]}}`, `! the answer cannot be read`},
		"half a point":                 {`{"status":"success","data":{"result":[{"metric":{},"value":[1]}]}}`, `! the answer cannot be read`},
		"no status":                    {`{}`, `! the answer cannot be read`},
		"empty":                        {``, `! the answer cannot be read`},
	} {
		got, err := decode([]byte(c.body))
		if text := format(got.series, err); text != c.want && (!strings.HasPrefix(c.want, "!") || !strings.HasPrefix(text, c.want)) {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// Thanos and Mimir send warnings, VictoriaMetrics sets a field.
func TestIncompleteAnswersAreReported(t *testing.T) {
	for extra, want := range map[string]bool{``: false, `,"warnings":["No StoreAPIs matched for this query"]`: true, `,"isPartial":true`: true, `,"isPartial":false`: false} {
		got, err := decode([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1,"2"]}]}` + extra + `}`))
		if err != nil || got.partial != want {
			t.Errorf("%s: partial %v, want %v (%v)", extra, got.partial, want, err)
		}
	}
}

func format(all []series, err error) string {
	if err != nil {
		return "! " + err.Error()
	}
	var b strings.Builder
	for _, s := range all {
		fmt.Fprint(&b, s.labels)
		for _, p := range s.points {
			fmt.Fprintf(&b, " %d=%v", p.at.UnixMilli(), p.v)
		}
	}
	return b.String()
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1,"0.25"]}]}}`))
	f.Add([]byte(`{"status":"error","errorType":"bad_data","error":"x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decode(body)
		if err != nil && got.series != nil {
			t.Error("a part of an answer passed for all of it")
		}
		for _, s := range got.series {
			if s.labels == nil {
				t.Error("a series without labels")
			}
		}
	})
}

// Some proxies refuse POST, and some answer instead of Prometheus.
func TestAnswersOfProxiesAreExplained(t *testing.T) {
	const answer = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1,"2"]}]}}`
	for name, c := range map[string]struct {
		serve func(http.ResponseWriter, *http.Request)
		want  string
	}{
		"refuses POST": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			if !strings.Contains(r.URL.Query().Get("query"), "(up)") || r.URL.Query().Get("lookback_delta") != "5m0s" {
				t.Errorf("asked for %s", r.URL)
			}
			_, _ = io.WriteString(w, answer)
		}, "map[pod:a] 1000=2"},
		"is down": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>upstream http://user:secret@10.0.0.1</html>")
		}, "! answered with status 502"},
		"lies": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, answer)
		}, "! answered with status 500"},
		"is Prometheus": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"status":"error","errorType":"timeout","error":"too slow"}`)
		}, "! timeout: too slow"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(c.serve))
			defer srv.Close()
			client, err := New(Config{URL: srv.URL, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			got := client.ask(t.Context(), plannedQuery{union: query.Placed([]string{"up"}), at: now})
			if text := format(got.series, got.err); text != c.want {
				t.Errorf("%s, want %s", text, c.want)
			}
		})
	}
}

func TestRangesEndNow(t *testing.T) {
	for _, lasted := range []time.Duration{0, time.Second, 8 * time.Minute, 31 * time.Minute, 2 * time.Hour, 47 * time.Hour} {
		onset := now.Add(-lasted)
		s := span(onset, now)
		steps := s.End.Sub(s.Start) / s.Step
		if !s.End.Equal(now) || s.End.Sub(s.Start)%s.Step != 0 || s.Step%time.Second != 0 || steps > 120 || steps < 20 {
			t.Errorf("after %s: %+v", lasted, s)
		}
		if early := onset.Add(-time.Hour).Sub(s.Start); early < 0 || early >= s.Step {
			t.Errorf("after %s it begins %s before the hour", lasted, early)
		}
	}
}

// With TLS, each new connection needs a handshake. A gathering must reuse the connections of the
// previous one.
func TestConnectionsAreReused(t *testing.T) {
	var made atomic.Int64
	srv := httptest.NewUnstartedServer(&fakeAPI{t: t, store: fleet()})
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	client, err := New(Config{URL: srv.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	const gatherings = 6
	for range gatherings {
		client.Read(t.Context(), queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, now, now))
	}
	if n := made.Load(); n > gatherings*MaxQueries/2 {
		t.Errorf("%d connections for %d gatherings", n, gatherings)
	}
}

// VictoriaMetrics takes queries of 16 KiB by default.
func TestLongQueriesAreDivided(t *testing.T) {
	scope := state.Scope{Namespace: "llm", Pool: "vllm-llama"}
	want := read(t, &fakeAPI{t: t, store: fleet()}, scope, Config{})
	api := &fakeAPI{t: t, store: fleet(), longest: 16 << 10}
	got := read(t, api, scope, Config{})
	key := func(s state.Sample) string { return s.Signal + fmt.Sprint(s.Entity) + s.Text }
	byEntity := cmpopts.SortSlices(func(a, b state.Sample) bool { return key(a) < key(b) })
	if diff := cmp.Diff(want.Samples, got.Samples, byEntity); len(want.Samples) == 0 || diff != "" {
		t.Errorf("%d samples, %d where queries are short:\n%s", len(want.Samples), len(got.Samples), diff)
	}
	if !slices.ContainsFunc(api.queries, func(q string) bool { return len(q) > api.longest }) {
		t.Error("no query was too long")
	}
}

// A write may rest on fresh values, and a part of them may look like an idle worker.
func TestFreshValuesAreNeverPartial(t *testing.T) {
	client, err := New(Config{URL: (&fakeAPI{t: t, store: fleet(), warns: true}).serve().URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	q := queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, now.Add(-10*time.Minute), now)
	if got := client.Read(t.Context(), q); len(got.Samples) == 0 {
		t.Error("no value for a person to read")
	}
	q.Fresh = true
	if got := client.Read(t.Context(), q); len(got.Samples) > 0 {
		t.Errorf("%d fresh values of a partial answer", len(got.Samples))
	}
}
