// Package bot runs the real paramedic binary as a child process for end-to-end tests. It writes a
// configuration, starts the bot and waits until it is ready, kills it, starts it again on the same
// address and state, and reads its API.
//
// $PARAMEDIC_BIN names the binary; without it a test fails and explains how to build it. If a test
// fails, it logs the bot's output. A bot ends with the test process.
package bot

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"paramedic/e2e/freeport"
)

// Binary returns the path of the binary under test.
func Binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("PARAMEDIC_BIN")
	if path == "" {
		t.Fatal("PARAMEDIC_BIN names no binary: run `make build` in the repository and set " +
			"PARAMEDIC_BIN=$PWD/bin/paramedic, or run `make e2e`")
	}
	if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
		t.Fatalf("PARAMEDIC_BIN=%s must be the absolute path of the binary: %v", path, err)
	}
	return path
}

// A Bot is a bot with its directory and address, over any number of processes.
type Bot struct {
	// Token is sent to the API as a bearer token if it is not empty.
	Token string

	t      testing.TB
	dir    string
	listen string
	output lockedBuffer
	client *http.Client

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// New returns a bot that does not run yet, with its own directory and free loopback address.
func New(t testing.TB) *Bot {
	t.Helper()
	b := &Bot{t: t, dir: t.TempDir(), listen: FreeAddress(t), client: &http.Client{Timeout: 10 * time.Second}}
	t.Cleanup(func() {
		b.Kill()
		b.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the end of the bot's output:\n%s", tail(b.Output(), 16<<10))
		}
	})
	return b
}

// FreeAddress returns a free loopback address.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Dir returns the bot's directory.
func (b *Bot) Dir() string { return b.dir }

// URL returns the bot's base URL without a trailing slash.
func (b *Bot) URL() string { return "http://" + b.listen }

// ConfigPath returns the path of the configuration file.
func (b *Bot) ConfigPath() string { return filepath.Join(b.dir, "paramedic.yaml") }

// Secret writes a secret to a file and returns its path.
func (b *Bot) Secret(name, value string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// Configure writes paramedic.yaml: the given tree, and the bot's address and state directory unless
// it sets them. It replaces the file in one step, as a mounted ConfigMap is replaced.
func (b *Bot) Configure(config map[string]any) {
	b.t.Helper()
	full := map[string]any{"listen": b.listen, "state": map[string]any{"dir": filepath.Join(b.dir, "data")}}
	maps.Copy(full, config)
	raw, err := yaml.Marshal(full)
	if err != nil {
		b.t.Fatal(err)
	}
	b.ConfigureRaw(raw)
}

// ConfigureRaw replaces paramedic.yaml with a text.
func (b *Bot) ConfigureRaw(raw []byte) {
	b.t.Helper()
	next := b.ConfigPath() + ".next"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(next, b.ConfigPath()); err != nil {
		b.t.Fatal(err)
	}
}

// Launch starts the process and does not wait until it is ready.
func (b *Bot) Launch() {
	b.t.Helper()
	if err := b.launch(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *Bot) launch() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	cmd := exec.Command(Binary(b.t), "serve", "--config", b.ConfigPath())
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, &b.output, &b.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the bot: %w", err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	b.cmd, b.done = cmd, done
	return nil
}

// Start starts the process and waits until it is ready.
func (b *Bot) Start() {
	b.t.Helper()
	b.Launch()
	Eventually(b.t, 30*time.Second, "the bot is ready", b.Ready)
}

// Ready returns nil if the process answers /readyz with 200. If the process has ended, the error is
// Final.
func (b *Bot) Ready() error {
	b.mu.Lock()
	done := b.done
	b.mu.Unlock()
	select {
	case <-done:
		return Final(errors.New("the process ended: " + b.ended().String()))
	default:
	}
	resp, err := b.client.Get(b.URL() + "/readyz")
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", resp.Status)
	}
	return nil
}

// Kill ends the process with SIGKILL and waits until it is gone. It does nothing if no process
// runs.
func (b *Bot) Kill() {
	b.mu.Lock()
	cmd, done := b.cmd, b.done
	b.mu.Unlock()
	if cmd == nil {
		return
	}
	cmd.Process.Kill()
	<-done
}

// Signal sends a signal to the process, for instance SIGSTOP.
func (b *Bot) Signal(s syscall.Signal) {
	b.t.Helper()
	if err := b.cmd.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
}

// Stop ends the process with SIGTERM. It returns the exit code and how long the process took to
// end.
func (b *Bot) Stop() (code int, took time.Duration) {
	b.t.Helper()
	start := time.Now()
	b.Signal(syscall.SIGTERM)
	return b.Wait(30 * time.Second), time.Since(start)
}

// Wait waits until the process ends by itself and returns its exit code.
func (b *Bot) Wait(limit time.Duration) int {
	b.t.Helper()
	select {
	case <-b.done:
		return b.ended().ExitCode()
	case <-time.After(limit):
		b.t.Fatalf("the bot has not ended within %s", limit)
		return -1
	}
}

func (b *Bot) ended() *os.ProcessState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cmd.ProcessState
}

// Output returns the output of the bot's processes so far.
func (b *Bot) Output() string { return b.output.String() }

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
