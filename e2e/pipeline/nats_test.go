package pipeline

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/e2e/freeport"
)

// natsConfig is the environment variable by which the test binary becomes a NATS server.
const natsConfig = "PIPELINE_NATS_CONFIG"

// A natsServer is a NATS server in a process of its own, so that it can be killed.
type natsServer struct {
	t      *testing.T
	name   string
	config string
	url    string // for clients
	health string // its monitoring
	cmd    *exec.Cmd
}

// startNATS starts three servers in a cluster. Clients know the servers of their configuration
// only, so that a link to them can be cut.
func startNATS(t *testing.T) []*natsServer {
	t.Helper()
	const size = 3
	ports, err := freeport.Find(3 * size)
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for i := range size {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[3*i+1]))
	}
	var all []*natsServer
	for i := range size {
		dir := t.TempDir()
		s := &natsServer{t: t, name: fmt.Sprintf("n%d", i), config: filepath.Join(dir, "nats.conf"),
			url: fmt.Sprintf("nats://127.0.0.1:%d", ports[3*i]), health: fmt.Sprintf("http://127.0.0.1:%d/healthz", ports[3*i+2])}
		text := fmt.Sprintf("server_name: %s\nlisten: \"127.0.0.1:%d\"\nhttp: \"127.0.0.1:%d\"\nmax_payload: 8MB\nlogfile: %q\n"+
			"jetstream {store_dir: %q, sync_interval: always}\n"+
			"cluster {name: pipeline, listen: \"127.0.0.1:%d\", no_advertise: true, routes: [%s]}\n",
			s.name, ports[3*i], ports[3*i+2], filepath.Join(dir, "nats.log"), filepath.Join(dir, "js"), ports[3*i+1],
			strings.Join(routes, ", "))
		if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.launch()
		t.Cleanup(s.kill)
		all = append(all, s)
	}
	for _, s := range all {
		s.healthy()
	}
	return all
}

func (s *natsServer) launch() {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(exe)
	s.cmd.Env = append(os.Environ(), natsConfig+"="+s.config)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the process with SIGKILL.
func (s *natsServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // its end says so
}

// healthy waits until the server has caught up with the others.
func (s *natsServer) healthy() {
	s.t.Helper()
	bot.Eventually(s.t, time.Minute, s.name+" is healthy", func() error {
		resp, err := http.Get(s.health)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}
