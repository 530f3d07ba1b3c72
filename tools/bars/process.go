package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A runner starts servers, each with a directory of its own below dir. They end with the context.
type runner struct {
	ctx                    context.Context
	dir, bot, alertmanager string
	started                int
}

// A process is a running server.
type process struct {
	url, dir string
	took     time.Duration // from its start until it was ready
	cmd      *exec.Cmd
}

// startBot starts the bot on an empty directory.
func (r *runner) startBot() *process { return r.restartBot(r.newDir()) }

// restartBot starts the bot on a directory, with default settings but for its address.
func (r *runner) restartBot(dir string) *process {
	address := freeAddress()
	cfg := fmt.Sprintf("listen: %s\nstate: {dir: %q}\n", address, dir)
	check(os.WriteFile(dir+".yaml", []byte(cfg), 0o600))
	return r.start(address, dir, "/readyz", r.bot, "serve", "--config", dir+".yaml")
}

// startAlertmanager starts an Alertmanager with a group for each rule, which costs it least.
func (r *runner) startAlertmanager() *process {
	address, dir := freeAddress(), r.newDir()
	const cfg = "route: {receiver: none, group_by: [alertname]}\nreceivers: [{name: none}]\n"
	check(os.WriteFile(dir+".yaml", []byte(cfg), 0o600))
	return r.start(address, dir, "/-/ready", r.alertmanager, "--config.file="+dir+".yaml", "--storage.path="+dir,
		"--log.level=error", "--web.listen-address="+address, "--cluster.listen-address=")
}

// startAnswer starts a server that only answers.
func (r *runner) startAnswer() *process {
	address := freeAddress()
	return r.start(address, "", "/", must(os.Executable()), "answer", address)
}

// answer is that server: it reads each request and answers 200.
func answer(address string) error {
	return http.ListenAndServe(address, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the sender sees a broken request itself
	}))
}

// newDir returns the path of a directory that does not exist yet.
func (r *runner) newDir() string {
	r.started++
	return filepath.Join(r.dir, fmt.Sprint(r.started))
}

// copyOf returns a copy of a directory.
func (r *runner) copyOf(dir string) string {
	to := r.newDir()
	check(os.CopyFS(to, os.DirFS(dir)))
	syscall.Sync() // so that the bot does not flush the copy
	return to
}

func freeAddress() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().String()
}

// start starts a server and waits until it answers the path with 200.
func (r *runner) start(address, dir, ready string, args ...string) *process {
	log := must(os.Create(filepath.Join(r.dir, "log")))
	defer log.Close()
	p := &process{url: "http://" + address, dir: dir, cmd: exec.CommandContext(r.ctx, args[0], args[1:]...)}
	p.cmd.Stderr = log
	began := time.Now()
	check(p.cmd.Start())
	for time.Since(began) < 10*time.Minute && r.ctx.Err() == nil {
		if resp, err := http.Get(p.url + ready); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				p.took = time.Since(began)
				return p
			}
		}
		<-time.After(5 * time.Millisecond)
	}
	p.kill()
	said := must(os.ReadFile(log.Name()))
	panic(fmt.Errorf("%s is not ready after %s:\n%s", args[0], time.Since(began).Round(time.Second), said[max(0, len(said)-2000):]))
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // ends with the signal
}

// end kills the process and removes its data.
func (p *process) end() {
	p.kill()
	os.RemoveAll(p.dir)
}

// memory returns a value of the process's status, in bytes: VmRSS, or VmHWM for its peak.
func (p *process) memory(name string) float64 {
	return must(valuesOf(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))), name+":"))[0] * 1024
}

// metric returns a metric of the bot, as the sum over its labels.
func (p *process) metric(name string) float64 {
	sum := 0.0
	for _, v := range p.values(name) {
		sum += v
	}
	return sum
}

// most returns the highest value of a metric over its labels.
func (p *process) most(name string) float64 { return slices.Max(p.values(name)) }

func (p *process) values(name string) []float64 {
	resp := must(http.Get(p.url + "/metrics"))
	defer resp.Body.Close()
	return must(valuesOf(must(io.ReadAll(resp.Body)), name))
}

// valuesOf returns the numbers behind a name, with or without labels.
func valuesOf(text []byte, name string) (values []float64, err error) {
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if is, _, _ := strings.Cut(words[0], "{"); is == name {
			v, err := strconv.ParseFloat(words[1], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s is missing", name)
	}
	return values, nil
}

// await waits until a metric of the bot is zero, and returns the time at which it was.
func (p *process) await(metric string) time.Time {
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if p.metric(metric) == 0 {
			return time.Now()
		}
	}
	panic(fmt.Errorf("%s is not 0 after ten minutes", metric))
}

// triagedUntil waits until the bot has applied all that it accepted before a time. Evidence comes
// for minutes after a storm, and is an input, too.
func (p *process) triagedUntil(accepted time.Time) time.Time {
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		now := time.Now()
		age := p.most("paramedic_backlog_oldest_seconds")
		if now.Add(-time.Duration(age * float64(time.Second))).After(accepted) {
			return now
		}
	}
	panic(errors.New("the alerts of a storm are not triaged after ten minutes"))
}

// triaged waits until the bot has committed all that it accepted, and returns that time. The bot
// must not have skipped any of it.
func (p *process) triaged() time.Time {
	at := p.await("paramedic_backlog_inputs")
	if n := p.metric("paramedic_inputs_set_aside_total"); n > 0 {
		panic(fmt.Errorf("the bot skipped %v inputs", n))
	}
	return at
}

// check ends the measurement if there is an error. It panics, so that deferred calls end the
// processes; run recovers.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// must returns the value, if there is no error.
func must[T any](value T, err error) T {
	check(err)
	return value
}
