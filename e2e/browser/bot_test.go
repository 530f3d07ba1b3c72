package browser

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"paramedic/e2e/freeport"
)

// patience is the longest time that a test waits for a change. The demo's story takes less than a
// minute at the tests' speed.
const patience = 120 * time.Second

// A bot is a running demo.
type bot struct {
	url string // without a trailing slash
}

// startDemo runs the real binary until the test ends.
func startDemo(t *testing.T, args ...string) *bot {
	t.Helper()
	bin := os.Getenv("PARAMEDIC_BIN")
	if bin == "" {
		t.Fatal("PARAMEDIC_BIN is not set: run `make e2e`, or build the binary and name it there")
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	out := &safeBuffer{}
	cmd := exec.Command(bin, append([]string{"demo", "--listen", address}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", bin, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended by itself
		select {
		case <-exited:
		case <-time.After(20 * time.Second):
			t.Error("the demo does not end when it is interrupted")
			_ = cmd.Process.Kill()
		}
		if t.Failed() {
			t.Logf("the demo said:\n%s", out.String())
		}
	})
	b := &bot{url: "http://" + address}
	until(t, "the bot is ready", func(ctx context.Context) error {
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("the demo ended at once: %v\n%s", err, out.String())
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	})
	return b
}

// until waits until ask returns nil. After patience it fails the test with the last error.
func until(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s until %s: %v", patience, what, err)
		case <-tick.C:
		}
	}
}

// alert posts a payload as Alertmanager does.
func (b *bot) alert(t *testing.T, payload []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/webhook/alertmanager", bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the webhook answers %s", res.Status)
	}
}

// A safeBuffer takes a process's output while a test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
