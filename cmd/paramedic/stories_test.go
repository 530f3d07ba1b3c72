package main

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"paramedic/lab/clock"
	"paramedic/lab/drill"
	"paramedic/lab/scrape"
	"paramedic/rules/enrich/traces/tracestest"
)

// Every paramedic in a story is this test binary in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"paramedic": main})
}

func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/stories", UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "fleet": fleetPages,
			"engines": enginePages, "pages": filePages, "traced": tracedRequests},
		Setup: func(env *testscript.Env) error {
			cases, err := filepath.Abs("../../rules/casetest/testdata/cases")
			if err != nil {
				return err
			}
			env.Setenv("CASES", cases)
			env.Setenv("PARAMEDIC_SERVER", "")
			env.Setenv("PARAMEDIC_TOKEN", "")
			return nil
		}})
}

// exits CODE COMMAND… runs a command that must exit with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// traced POOL N QUEUE PREFILL DECODE serves the traces of N recent requests, as the Tempo $TEMPO
// and the Jaeger $JAEGER.
func tracedRequests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: traced POOL N QUEUE PREFILL DECODE")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var times [3]time.Duration
	for i := range times {
		times[i], err = time.ParseDuration(args[2+i])
		ts.Check(err)
	}
	store := &tracestest.Store{}
	for i := range n {
		store.Add(tracestest.VLLM(tracestest.Request{N: i, End: time.Now().Add(-time.Duration(i) * time.Second), Prompt: 4000, Output: 200,
			Times: tracestest.Times{Queue: times[0], Prefill: times[1],
				Decode: times[2]}, Resource: map[string]any{"service.name": args[0]}})...)
	}
	for name, h := range map[string]http.Handler{"TEMPO": store.Tempo(), "JAEGER": store.Jaeger()} {
		server := httptest.NewServer(h)
		ts.Defer(server.Close)
		ts.Setenv(name, server.URL)
	}
}

// pages FILE… serves files as engines' /metrics pages, each at its own address: $PAGE0, $PAGE1 and
// so on.
func filePages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: pages FILE…")
	}
	for i, name := range args {
		page := ts.ReadFile(name)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = io.WriteString(w, page)
		}))
		ts.Defer(server.Close)
		ts.Setenv("PAGE"+strconv.Itoa(i), server.URL+"/metrics")
	}
}

// fleet FAULT AFTER [WITHOUT] serves the pages of a simulated fleet, from the time AFTER its start
// on, in real time. The workers' pages are $WORKER0, $WORKER1 and so on. They omit lines that
// contain WITHOUT, as an engine without that metric does.
func fleetPages(ts *testscript.TestScript, neg bool, args []string) { servePages(ts, neg, args, true) }

// engines FAULT AFTER [WITHOUT] does the same without target labels, as engines serve their pages.
func enginePages(ts *testscript.TestScript, neg bool, args []string) {
	servePages(ts, neg, args, false)
}

func servePages(ts *testscript.TestScript, neg bool, args []string, labelled bool) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: fleet|engines FAULT AFTER [WITHOUT]")
	}
	after, err := time.ParseDuration(args[1])
	ts.Check(err)
	scenario, err := drill.New(args[0], 4)
	ts.Check(err)
	fleet, err := scenario.Build()
	ts.Check(err)
	begin := fleet.Start().Add(after)
	fleet.Advance(begin)
	clock := clock.New(begin, 1)
	pages := scrape.Handler(fleet, scrape.Config{TargetLabels: labelled})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fleet.Advance(clock.Now())
		if len(args) < 3 {
			pages.ServeHTTP(w, r)
			return
		}
		whole := httptest.NewRecorder()
		pages.ServeHTTP(whole, r)
		maps.Copy(w.Header(), whole.Header())
		w.WriteHeader(whole.Code)
		for line := range strings.Lines(whole.Body.String()) {
			if !strings.Contains(line, args[2]) {
				_, _ = io.WriteString(w, line)
			}
		}
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // ends with ErrServerClosed
	}()
	ts.Defer(func() {
		_ = server.Close()
		<-ended
	})
	n := 0
	for _, target := range fleet.Targets() {
		if target.Labels["job"] == "" || target.Labels["pod"] != "" {
			ts.Setenv("WORKER"+strconv.Itoa(n), "http://"+listener.Addr().String()+target.Path)
			n++
		}
	}
}
