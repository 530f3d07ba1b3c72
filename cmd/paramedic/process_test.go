package main

import (
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// An output holds what a process writes.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// A process is the bot in a process of its own.
type process struct {
	t              *testing.T
	url, token     string
	stdout, stderr output
	stop           func() // ends it and waits
}

// serveProcess runs `paramedic -v serve` with a configuration.
func serveProcess(t *testing.T, dir, configuration string) *process {
	t.Helper()
	put(t, dir, "paramedic.yaml", []byte(configuration))
	cmd := exec.Command("paramedic", "-v", "serve", "--config", filepath.Join(dir, "paramedic.yaml"))
	p := &process{t: t}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve ended: %v", err)
		}
	})
	t.Cleanup(p.stop)
	listening := regexp.MustCompile(`msg=listening address=(http\S+)`)
	p.await("it listens", func() bool {
		m := listening.FindStringSubmatch(p.stderr.String())
		if m != nil {
			p.url = m[1]
		}
		return m != nil
	})
	p.await("it is ready", func() bool { _, code := p.ask(http.MethodGet, "/readyz", "", nil); return code == http.StatusOK })
	return p
}

func (p *process) await(what string, ok func() bool) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			p.t.Fatalf("never: %s\n%.8000s", what, p.stderr.String())
		}
	}
}

// ask sends a request with the token of p, and returns the answer.
func (p *process) ask(method, path, body string, header http.Header) (string, int) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error(), 0
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(raw), resp.StatusCode
}
