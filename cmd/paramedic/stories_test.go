package main

import (
	"errors"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"paramedic/lab"
)

// The command line is run as people run it: every paramedic in a story is this test binary as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"paramedic": main})
}

func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/stories", UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "fleet": fleetPages},
		Setup: func(env *testscript.Env) error {
			cases, err := filepath.Abs("../../rules/testdata/cases")
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

// fleet FAULT AFTER serves the pages of a simulated fleet as it is so long after its start, and goes on in real time. The workers'
// pages are $WORKER0, $WORKER1 and so on.
func fleetPages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fleet FAULT AFTER")
	}
	after, err := time.ParseDuration(args[1])
	ts.Check(err)
	scenario, err := lab.NewScenario(args[0], 4)
	ts.Check(err)
	fleet, err := scenario.Build()
	ts.Check(err)
	begin := fleet.Start().Add(after)
	fleet.Advance(begin)
	clock := lab.NewClock(begin, 1)
	pages := fleet.Handler(lab.HandlerConfig{TargetLabels: true})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fleet.Advance(clock.Now())
		pages.ServeHTTP(w, r)
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
