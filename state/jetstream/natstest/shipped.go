package natstest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"paramedic/state/jetstream/connect"
)

// nkey writes the seed of a new user to a file, and returns the public key.
func nkey(t testing.TB) (public, file string) {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = user.PublicKey(); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "nats.nk")
	if err := os.WriteFile(file, append(seed, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	return public, file
}

// A Shipped is a cluster of three servers with the shipped configuration, in other folders and on
// other ports. Beside the bot's user, its account has one who may do everything.
type Shipped struct {
	Servers []*server.Server
	URLs    string              // with commas between them
	Login   connect.Login       // of the bot
	Allowed []string            // subjects that the bot may publish to
	Admin   *nats.Conn          // of the user who may do everything
	Streams jetstream.JetStream // of Admin
}

// ServeShipped starts the servers with the configuration file of deploy/nats, and waits for their
// leader. They stop with the test.
func ServeShipped(t testing.TB, config string) *Shipped {
	t.Helper()
	dir := t.TempDir()
	files := NewAuthority(t).Issue(dir, "nats") // under the names of cert-manager
	public, seed := nkey(t)
	adminPublic, adminSeed := nkey(t)
	t.Setenv("PARAMEDIC_NKEY", public)
	c := &Shipped{Login: connect.Login{CredentialsFile: seed, TLS: connect.TLSFiles{CA: files.CA}}}
	raw, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("/etc/nats/tls", dir).Replace(string(raw))
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := &url.URL{Scheme: "nats", Host: "127.0.0.1:1"}
	routes := []*url.URL{nowhere, nowhere, nowhere} // as in Cluster
	for i := range 3 {
		t.Setenv("NATS_NAME", fmt.Sprintf("nats-%d", i))
		opts, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(opts.Routes) != 3 || !opts.SyncAlways || len(opts.Nkeys) != 1 {
			t.Fatalf("%d routes, sync always %t, %d users", len(opts.Routes), opts.SyncAlways, len(opts.Nkeys))
		}
		bot := opts.Nkeys[0]
		c.Allowed = bot.Permissions.Publish.Allow
		opts.Nkeys = append(opts.Nkeys, &server.NkeyUser{Nkey: adminPublic, Account: bot.Account})
		opts.HTTPPort, opts.Cluster.Host, opts.Cluster.Port, opts.Routes = 0, "127.0.0.1", server.RANDOM_PORT, routes
		c.Servers = append(c.Servers, Serve(t, *opts))
		routes = []*url.URL{{Scheme: "nats", Host: c.Servers[0].ClusterAddr().String()}, nowhere, nowhere}
		c.URLs += strings.Replace(c.Servers[i].ClientURL(), "nats://", "tls://", 1) + ","
	}
	c.URLs = strings.TrimSuffix(c.URLs, ",")
	awaitLeader(t, c.Servers)
	c.Admin = c.Dial(t, adminSeed)
	if c.Streams, err = jetstream.New(c.Admin); err != nil {
		t.Fatal(err)
	}
	return c
}

// Dial connects with the file of a user's seed until the test ends.
func (c *Shipped) Dial(t testing.TB, seed string, more ...nats.Option) *nats.Conn {
	t.Helper()
	user, err := nats.NkeyOptionFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(c.URLs, append(more, user, nats.RootCAs(c.Login.TLS.CA))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
