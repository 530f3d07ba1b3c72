// Package natstest runs real NATS servers for tests outside state/jetstream.
package natstest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
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
	return run(t, external(t)).ClientURL()
}

// StartCluster starts three servers that replicate streams, and returns their URLs with commas
// between them. They stop with the test.
func StartCluster(t testing.TB) (urls string) {
	t.Helper()
	// Each server takes a port from the system, and the first tells the others of each other.
	// JetStream computes its first majority from the number of configured routes: there are three,
	// and some lead nowhere.
	nowhere := &url.URL{Scheme: "nats", Host: "127.0.0.1:1"}
	routes := []*url.URL{nowhere, nowhere, nowhere}
	var servers []*server.Server
	for i := range 3 {
		opts := external(t)
		opts.ServerName, opts.Routes = fmt.Sprintf("n%d", i), routes
		opts.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT}
		servers = append(servers, run(t, opts))
		urls += servers[i].ClientURL() + ","
		routes = []*url.URL{{Scheme: "nats", Host: servers[0].ClusterAddr().String()}, nowhere, nowhere}
	}
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
	return strings.TrimSuffix(urls, ",")
}

func external(t testing.TB) server.Options {
	return server.Options{ServerName: "paramedic", Host: "127.0.0.1", Port: server.RANDOM_PORT, StoreDir: t.TempDir(), SyncAlways: true,
		MaxPayload: 8 << 20}
}

// Expire removes the inputs before a sequence from the log of an embedded store that is closed, as
// retention does. It returns how many are left.
func Expire(t testing.TB, dir string, before uint64) (left uint64) {
	t.Helper()
	srv := run(t, server.Options{ServerName: "paramedic", DontListen: true, StoreDir: dir})
	defer stop(srv)
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stream := log(t, nc)
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
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), fmt.Sprintf("paramedic.in.%d", partition), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// Streams returns the names of the streams on an external server.
func Streams(t testing.TB, url string) (names []string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		names = append(names, name)
	}
	return names
}

func log(t testing.TB, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), inputStream)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func run(t testing.TB, opts server.Options) *server.Server {
	t.Helper()
	opts.JetStream, opts.NoSigs, opts.NoLog = true, true, true
	srv, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { stop(srv) })
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server did not start")
	}
	return srv
}

func stop(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}
