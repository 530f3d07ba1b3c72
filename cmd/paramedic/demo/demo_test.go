package demo

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"paramedic/lab"
	"paramedic/lab/engine"
)

// The demo succeeds with every engine: the bot names the cause, and the engine's own limit, by the
// name of its flag, repairs the pool.
func TestDemoTreatsThePoolOfEveryEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: four stories of twenty minutes, played whole by make test")
	}
	t.Parallel()
	for kind, change := range map[engine.Kind]string{engine.VLLM: "max_num_seqs 256 → 64", engine.SGLang: "max_running_requests 256 → 64",
		engine.Dynamo: "max_num_seqs 256 → 64", engine.TRTLLM: "max_batch_size 256 → 64"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			d := &Demo{Out: io.Discard, Err: &said, Log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn})),
				Fault: lab.KVExhaustion, Engine: string(kind), Headless: true, Seed: 4, Speed: 24}
			if err := d.Run(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			if !strings.Contains(said.String(), "First aid: "+change+": succeeded") {
				t.Errorf("it ends with %s", said.String())
			}
		})
	}
}

// First aid restarts a pod only if an API server lists it, so the demo has to have one.
func TestDemoRestartsALeakingWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: a story of twenty minutes, played whole by make test")
	}
	t.Parallel()
	var said bytes.Buffer
	d := &Demo{Out: io.Discard, Err: &said, Log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Fault: lab.KVLeak, Engine: string(engine.VLLM), Headless: true, Seed: 4, Speed: 30}
	if err := d.Run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if !strings.Contains(said.String(), "First aid: restart pod ") || !strings.Contains(said.String(), ": succeeded") {
		t.Errorf("it ends with %s", said.String())
	}
}
