package inspect_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/inspect"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

const shippedConfig = "../../../deploy/nats/nats.conf"

// A server that is stopped early may leave these two goroutines behind, as in the tests of
// state/jetstream.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// answers returns the answers by part: ok, the error, or "unknown: …".
func answers(t *testing.T, cfg jetstream.Config) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, a := range inspect.NATS(t.Context(), cfg) {
		switch {
		case a.Err != nil:
			out[a.What] = a.Err.Error()
		case a.Unknown != "":
			out[a.What] = "unknown: " + a.Unknown
		default:
			out[a.What] = "ok"
		}
	}
	return out
}

// The shipped cluster is as it must be, before the bot's first start and after it, and a check
// changes nothing.
func TestInspectPassesTheShippedCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	c := natstest.ServeShipped(t, shippedConfig)
	cfg := jetstream.Config{URL: c.URLs, CredentialsFile: c.Login.CredentialsFile, TLS: c.Login.TLS, Replicas: 3}
	passes := func(when string) {
		t.Helper()
		got := answers(t, cfg)
		for what, answer := range got {
			if what == "nats sync" {
				if !strings.HasPrefix(answer, "unknown: ") || !strings.Contains(answer, "sync_interval: always") {
					t.Errorf("%s, %s: %s", when, what, answer)
				}
			} else if answer != "ok" {
				t.Errorf("%s, %s: %s", when, what, answer)
			}
		}
		if len(got) != 8 { // three servers, two streams, replicas, permissions, sync
			t.Errorf("%s: %v", when, got)
		}
	}
	passes("before the first start")
	s := openStore(t, cfg)
	if err := s.Append(t.Context(), state.Input{Cluster: "prod", ID: "an alert"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.1", Value: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	before := messages(t, c.Streams)
	passes("while the bot runs")
	if after := messages(t, c.Streams); !slices.Equal(before, after) {
		t.Errorf("messages before %v, after %v", before, after)
	}

	lost := c.Servers[2]
	name := lost.Name()
	lost.Shutdown()
	lost.WaitForShutdown()
	statetest.Until(t, "the loss of a server is found", func() bool {
		got := answers(t, cfg)
		return strings.Contains(got["nats server "+strings.TrimPrefix(c.URLs[strings.LastIndex(c.URLs, ",")+1:], "tls://")], "no connection") &&
			strings.Contains(got["nats stream PARAMEDIC_STATE"], name+" is offline: start that server")
	})
}

// openStore opens a store until the test ends.
func openStore(t *testing.T, cfg jetstream.Config) *jetstream.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := jetstream.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// messages returns how many inputs there are, and all records but the lease and the probes, which a
// running bot writes.
func messages(t *testing.T, js natsjs.JetStream) (counts []uint64) {
	t.Helper()
	for _, subject := range []string{"paramedic.in.>", "paramedic.st.>", "paramedic.pos.>", "paramedic.draft.>", "paramedic.tl.>"} {
		name := "PARAMEDIC_STATE"
		if strings.Contains(subject, ".in.") {
			name = "PARAMEDIC_INPUT"
		}
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context(), natsjs.WithSubjectFilter(subject))
		if err != nil {
			t.Fatal(err)
		}
		sum := uint64(0)
		for _, n := range info.State.Subjects {
			sum += n
		}
		counts = append(counts, sum)
	}
	return counts
}

func TestInspectFindsUnfitStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	servers := natstest.Cluster(t)
	nc, err := nats.Connect(servers[0].ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []natsjs.StreamConfig{
		{Name: "PARAMEDIC_INPUT", Subjects: []string{"paramedic.in.*"}, Replicas: 1, MaxAge: time.Hour, MaxBytes: 1 << 20, AllowAtomicPublish: true},
		{Name: "PARAMEDIC_STATE", Subjects: []string{"paramedic.st.>"}, Replicas: 3, Storage: natsjs.MemoryStorage, AllowDirect: true},
	} {
		if _, err := js.CreateStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	got := answers(t, jetstream.Config{URL: servers[0].ClientURL(), Replicas: 1, Retain: 48 * time.Hour})
	for what, texts := range map[string][]string{
		"nats replicas":               {"state.nats.replicas is 1 in a cluster", "loses the state: set it to 3"},
		"nats stream PARAMEDIC_INPUT": {"max_age is 1h0m0s, and Paramedic needs 48h0m0s", "max_bytes is 1048576, and Paramedic needs -1"},
		"nats stream PARAMEDIC_STATE": {"it is in memory", "`paramedic state export`", "subjects is paramedic.st.>, and", "allow_direct is true",
			"allow_atomic is false", "replicas is 3, and Paramedic needs 1", "max_msgs_per_subject is -1, and Paramedic needs 1"},
		"nats permissions": {"ok"},
		"nats sync":        {"unknown: "},
	} {
		for _, text := range texts {
			if !strings.Contains(got[what], text) {
				t.Errorf("%s: %s\nwant %q", what, got[what], text)
			}
		}
	}
	if answer := answers(t, jetstream.Config{URL: servers[1].ClientURL(), Replicas: 3})["nats stream PARAMEDIC_INPUT"]; !strings.Contains(answer,
		"replicas is 1, and Paramedic needs 3") {
		t.Errorf("one replica where three are configured: %s", answer)
	}
}

// A user that lacks one of the shipped rights is told which, and a check of a complete user finds
// none missing.
func TestInspectNamesEachMissingRight(t *testing.T) {
	raw, err := os.ReadFile(shippedConfig)
	if err != nil {
		t.Fatal(err)
	}
	var rights []string
	for _, m := range regexp.MustCompile(`"((?:paramedic\.|\$JS\.API\.)[^"]+)"`).FindAllStringSubmatch(string(raw), -1) {
		rights = append(rights, m[1])
	}
	if len(rights) < 20 {
		t.Fatalf("the shipped configuration has only %v", rights)
	}
	opts := server.Options{ServerName: "paramedic", JetStream: true, SyncAlways: true, MaxPayload: 8 << 20}
	for i := range len(rights) + 1 {
		allowed := slices.Clone(rights)
		if i < len(rights) {
			allowed = slices.Delete(allowed, i, i+1)
		}
		opts.Users = append(opts.Users, &server.User{Username: fmt.Sprint("u", i), Password: "pw", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: allowed}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}})
	}
	opts.Users = append(opts.Users, &server.User{Username: "deaf", Password: "pw", Permissions: &server.Permissions{
		Subscribe: &server.SubjectPermission{Allow: []string{"paramedic.>"}}}})
	srv := natstest.Serve(t, opts)
	asked := func(user string) map[string]string {
		return answers(t, jetstream.Config{URL: strings.Replace(srv.ClientURL(), "//", "//"+user+":pw@", 1), Replicas: 1})
	}
	for i, right := range rights {
		if got := asked(fmt.Sprint("u", i))["nats permissions"]; !strings.Contains(got, "may not publish to "+right+":") {
			t.Errorf("without %s: %s", right, got)
		}
	}
	all := asked(fmt.Sprint("u", len(rights)))
	if all["nats permissions"] != "ok" || all["nats server "+srv.Addr().String()] != "ok" {
		t.Errorf("with all rights: %v", all)
	}
	if got := asked("deaf")["nats permissions"]; !strings.Contains(got, "may not subscribe to _INBOX.>") {
		t.Errorf("without an inbox: %s", got)
	}
}

// systemConf lets the bot's account ask the system account for the settings of JetStream.
const systemConf = `
accounts {
  SYS { users: [{user: sys, password: pw}], exports: [{service: "$SYS.REQ.SERVER.PING.JSZ", response_type: stream}] }
  PARAMEDIC {
    jetstream: enabled
    users: [{user: bot, password: pw}]
    imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ"}}]
  }
}
system_account: SYS
jetstream { %s }
`

func TestInspectReadsWhetherWritesAreSynced(t *testing.T) {
	for setting, want := range map[string]string{"sync_interval: always": "ok", `sync_interval: "2m"`: "writes to disk only every 2m0s"} {
		file := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(file, fmt.Appendf(nil, systemConf, setting), 0o600); err != nil {
			t.Fatal(err)
		}
		opts, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		srv := natstest.Serve(t, *opts)
		got := answers(t, jetstream.Config{URL: strings.Replace(srv.ClientURL(), "//", "//bot:pw@", 1), Replicas: 1})
		if !strings.Contains(got["nats sync"], want) {
			t.Errorf("%s: %s", setting, got["nats sync"])
		}
		if answer := got["nats server "+srv.Addr().String()]; !strings.Contains(answer, "set max_payload: 8MB") {
			t.Errorf("a server that takes 1 MB: %s", answer)
		}
	}
}

// A server that calls itself older is refused before anything depends on its answers.
func TestInspectFindsAnOldServer(t *testing.T) {
	srv := natstest.Serve(t, server.Options{ServerName: "paramedic", JetStream: true})
	old := pretend(t, srv.Addr().String(), "2.11.4")
	got := answers(t, jetstream.Config{URL: "nats://" + old + ", nats://127.0.0.1:1"})
	for what, want := range map[string]string{"nats server " + old: "NATS 2.11.4 has no atomic batches", "nats server 127.0.0.1:1": "no connection",
		"nats replicas": "the server is in no cluster"} {
		if !strings.Contains(got[what], want) {
			t.Errorf("%s: %s\nwant %q", what, got[what], want)
		}
	}
}

// pretend forwards connections to a server, which tells its clients another version.
func pretend(t *testing.T, to, version string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = client.Close() }()
			behind, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer func() { _ = behind.Close() }()
			go func() { _, _ = io.Copy(behind, client) }()
			go func() { // the server tells its version again after the connection is set up
				part := make([]byte, 64<<10)
				for {
					n, err := behind.Read(part)
					if err != nil {
						return
					}
					_, _ = client.Write([]byte(strings.ReplaceAll(string(part[:n]), server.VERSION, version)))
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}
