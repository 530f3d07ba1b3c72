package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A proc is one component's process.
type proc struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	err  error
}

// log returns the path of a component's log.
func (c *Cluster) log(name string) string { return filepath.Join(c.dir, name+".log") }

// start runs a component until Stop, or until the test process ends.
func (c *Cluster) start(name string, args ...string) error {
	log, err := os.Create(c.log(name))
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "+ %s %s %s\n", c.binary, name, strings.Join(args, " "))
	cmd := exec.Command(c.binary, append([]string{name}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "HOME="+c.dir, "KUBECONFIG=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		log.Close()
		return err
	}
	p := &proc{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	go func() { p.err = cmd.Wait(); close(p.done); log.Close() }()
	c.procs = append(c.procs, p)
	return nil
}

// dead returns an error with the end of its log for the first component that has exited, or nil.
func (c *Cluster) dead() error {
	for _, p := range c.procs {
		select {
		case <-p.done:
			b, _ := os.ReadFile(c.log(p.name))
			if len(b) > 4000 {
				b = b[len(b)-4000:]
			}
			return fmt.Errorf("%s exited: %v\n%s", p.name, p.err, b)
		default:
		}
	}
	return nil
}

// waitHTTP waits until a URL answers 200, or a component has exited.
func (c *Cluster) waitHTTP(ctx context.Context, client *http.Client, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		if err := c.dead(); err != nil {
			return err
		}
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		resp, err := client.Do(req)
		if err == nil {
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == 200 {
				return nil
			}
			err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(b))
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", url, last)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// Stop ends every process that Start started, newest first.
func (c *Cluster) Stop() {
	for i := len(c.procs) - 1; i >= 0; i-- {
		p := c.procs[i]
		select {
		case <-p.done:
			continue
		default:
		}
		sig := syscall.SIGTERM
		if p.name == "kube-apiserver" || p.name == "etcd" {
			sig = syscall.SIGKILL // a graceful end takes seconds and saves nothing of use
		}
		_ = p.cmd.Process.Signal(sig)
		select {
		case <-p.done:
		case <-time.After(2 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
}
