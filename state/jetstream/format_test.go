package jetstream_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

var storeStreams = []string{"PARAMEDIC_INPUT", "PARAMEDIC_STATE"}

// metadata changes the metadata of the store's streams on a server, and returns it.
func metadata(t *testing.T, nc *nats.Conn, change func(map[string]string)) map[string]string {
	t.Helper()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var last map[string]string
	for _, name := range storeStreams {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		change(cfg.Metadata)
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		last = cfg.Metadata
	}
	return last
}

// inDirectory changes the metadata of an embedded store that is closed.
func inDirectory(t *testing.T, dir string, change func(map[string]string)) map[string]string {
	t.Helper()
	srv, err := server.NewServer(&server.Options{ServerName: "paramedic", DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true,
		NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server did not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	return metadata(t, nc, change)
}

// contents returns the hash of every file below a directory, and when it was last written.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[path] = fmt.Sprintf("%x written %s", sha256.Sum256(raw), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// newer makes a store one of a later version.
func newer(m map[string]string) {
	m["paramedic-format"], m["paramedic-version"] = strconv.Itoa(state.Format+2), "v9.8.7"
}

// refused checks that a store is refused, with what a person has to know.
func refused(t *testing.T, cfg jetstream.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := jetstream.Open(ctx, cfg)
	if err == nil {
		closeStore(t, s)
		t.Fatal("a store of a newer format was opened")
	}
	for _, want := range []string{fmt.Sprintf("written by Paramedic v9.8.7 with format %d", state.Format+2),
		fmt.Sprintf("this Paramedic (v1.2.3) reads up to %d", state.Format), "restore a backup"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal lacks %q: %v", want, err)
		}
	}
}

// A downgrade must not touch a store that it could misread.
func TestNewerFormatIsRefusedUntouched(t *testing.T) {
	cfg := jetstream.Config{Dir: t.TempDir(), Version: "v1.2.3"}
	s := openStore(t, cfg)
	if err := s.Append(t.Context(), state.Input{Cluster: "prod"}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if m := inDirectory(t, cfg.Dir, newer); m["paramedic-partitions"] == "" {
		t.Fatalf("the metadata are %v", m)
	}
	before := contents(t, cfg.Dir)
	refused(t, cfg)
	if after := contents(t, cfg.Dir); len(before) < 5 || !maps.Equal(before, after) {
		t.Errorf("%d files before, %d after the refusal, or other contents", len(before), len(after))
	}
}

// The streams of an external server stay as they are, too.
func TestNewerFormatOnANATSServerIsRefused(t *testing.T) {
	srv := natstest.Serve(t, server.Options{JetStream: true})
	cfg := jetstream.Config{URL: srv.ClientURL(), Replicas: 1, Version: "v1.2.3"}
	closeStore(t, openStore(t, cfg))
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	before := metadata(t, nc, newer)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	last := func() (seqs []uint64) {
		for _, name := range storeStreams {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			info := stream.CachedInfo()
			if info.Config.Metadata["paramedic-version"] != before["paramedic-version"] {
				t.Errorf("the metadata of %s became %v", name, info.Config.Metadata)
			}
			seqs = append(seqs, info.State.LastSeq)
		}
		return seqs
	}
	was := last()
	refused(t, cfg)
	if now := last(); was[0] != now[0] || was[1] != now[1] {
		t.Errorf("the streams ended at %v and end at %v", was, now)
	}
}

// The first release wrote no format. Its stores are read, and are marked from then on.
func TestStoreWithoutFormatIsRead(t *testing.T) {
	cfg := jetstream.Config{Dir: t.TempDir(), Version: "v1.2.3"}
	s := openStore(t, cfg)
	part := s.Partition("prod")
	if _, err := s.Commit(t.Context(), part, state.Fence{}, 1, []state.Record{{Key: "a.b", Value: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	inDirectory(t, cfg.Dir, func(m map[string]string) { delete(m, "paramedic-format"); delete(m, "paramedic-version") })
	s = openStore(t, cfg)
	if records, _, err := s.Load(t.Context(), part, statetest.Raw); err != nil || len(records) != 1 {
		t.Errorf("%d records are read: %v", len(records), err)
	}
	closeStore(t, s)
	if m := inDirectory(t, cfg.Dir, func(map[string]string) {}); m["paramedic-format"] != strconv.Itoa(state.Format) || m["paramedic-version"] != "v1.2.3" {
		t.Errorf("the metadata are %v", m)
	}
}
