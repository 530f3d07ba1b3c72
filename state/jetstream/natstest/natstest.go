// Package natstest runs real NATS servers for tests, and issues their certificates.
package natstest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// inputStream has the log of a store.
const inputStream = "PARAMEDIC_INPUT"

// Start starts an external server with JetStream, and returns its URL. It stops with the test.
func Start(t testing.TB) (url string) {
	t.Helper()
	return Serve(t, durable()).ClientURL()
}

// StartCluster starts the servers of Cluster, and returns their URLs with commas between them.
func StartCluster(t testing.TB) (urls string) {
	t.Helper()
	var all []string
	for _, s := range Cluster(t) {
		all = append(all, s.ClientURL())
	}
	return strings.Join(all, ",")
}

// Cluster starts three servers that replicate streams, and waits for their leader. They stop with
// the test.
func Cluster(t testing.TB) (servers []*server.Server) {
	t.Helper()
	// Each server takes a port from the system, and the first tells the others of each other. A
	// port chosen earlier may be in use by then. JetStream computes its first majority from the
	// number of configured routes: there are three, and some lead nowhere.
	nowhere := &url.URL{Scheme: "nats", Host: "127.0.0.1:1"}
	routes := []*url.URL{nowhere, nowhere, nowhere}
	for i := range 3 {
		opts := durable()
		opts.ServerName, opts.Routes = fmt.Sprintf("n%d", i), routes
		// Clients know the servers of their configuration only, so that a Link can be cut.
		opts.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true}
		servers = append(servers, Serve(t, opts))
		routes = []*url.URL{{Scheme: "nats", Host: servers[0].ClusterAddr().String()}, nowhere, nowhere}
	}
	awaitLeader(t, servers)
	return servers
}

// awaitLeader waits until one of the servers leads them all.
func awaitLeader(t testing.TB, servers []*server.Server) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !slices.ContainsFunc(servers, func(s *server.Server) bool {
		return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(servers)
	}) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the NATS cluster has no leader")
		}
	}
}

// durable returns the options of a server as in deploy/nats.
func durable() server.Options {
	return server.Options{ServerName: "paramedic", JetStream: true, SyncAlways: true, MaxPayload: 8 << 20}
}

// Serve starts an external server on a port and in a folder of its own. It prints its log if the
// test fails, and stops with the test.
func Serve(t testing.TB, opts server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.Port, opts.StoreDir = "127.0.0.1", server.RANDOM_PORT, t.TempDir()
	return run(t, opts)
}

// Expire removes the inputs before a sequence from the log of an embedded store that is closed, as
// retention does. It returns how many are left.
func Expire(t testing.TB, dir string, before uint64) (left uint64) {
	t.Helper()
	srv := run(t, server.Options{ServerName: "paramedic", JetStream: true, DontListen: true, StoreDir: dir})
	defer stop(srv)
	js := open(t, "", nats.InProcessServer(srv))
	stream, err := js.Stream(t.Context(), inputStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(before)); err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

// AppendRaw adds a text to a partition's log on an external server, as a bot would not.
func AppendRaw(t testing.TB, url string, partition int, text string) {
	t.Helper()
	if _, err := open(t, url).Publish(t.Context(), fmt.Sprintf("paramedic.in.%d", partition), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// Streams returns the names of the streams on an external server.
func Streams(t testing.TB, url string) (names []string) {
	t.Helper()
	for name := range open(t, url).StreamNames(t.Context()).Name() {
		names = append(names, name)
	}
	return names
}

// open connects to a server until the test ends.
func open(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func run(t testing.TB, opts server.Options) *server.Server {
	t.Helper()
	opts.NoSigs, opts.NoLog = true, true
	srv, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	logged := &serverLog{}
	srv.SetLogger(logged, false, false)
	srv.Start()
	t.Cleanup(func() {
		stop(srv)
		if t.Failed() {
			t.Logf("the NATS server %s logged:\n%s", srv.Name(), logged)
		}
	})
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server did not start")
	}
	return srv
}

func stop(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// serverLog keeps a NATS server's log. The server's own logger would always write to the test's
// output.
type serverLog struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *serverLog) add(level, format string, args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.lines, "%s %s %s\n", time.Now().Format("15:04:05.000"), level, fmt.Sprintf(format, args...))
}

func (l *serverLog) Noticef(format string, args ...any) { l.add("INF", format, args) }
func (l *serverLog) Warnf(format string, args ...any)   { l.add("WRN", format, args) }
func (l *serverLog) Errorf(format string, args ...any)  { l.add("ERR", format, args) }
func (l *serverLog) Fatalf(format string, args ...any)  { l.add("FTL", format, args) }
func (l *serverLog) Debugf(string, ...any)              {}
func (l *serverLog) Tracef(string, ...any)              {}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}
