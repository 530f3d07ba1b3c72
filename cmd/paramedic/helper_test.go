package main

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/state"
	"paramedic/state/jetstream"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing it")

// current compares a generated file, or writes it with -update.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("%s is not what the code says now: run `make generate` and commit it (%v)", path, err)
	}
}

func put(t *testing.T, dir, name string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// An idleStore is for a service that is created and does not run.
type idleStore struct{ state.Store }

func (idleStore) Partitions() int { return 1 }

// startBot starts the whole bot on a new directory, and returns its address.
func startBot(t *testing.T) (string, *service.Service) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	store, err := jetstream.Open(ctx, jetstream.Config{Dir: t.TempDir(), Retain: time.Hour, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	bot, err := service.New(config.Default(), service.Deps{Store: store, Clock: state.SystemClock{}, Logger: log, Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(bot.Handler)
	var group sync.WaitGroup
	group.Go(func() {
		if err := bot.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		bot.CloseStreams()
		server.Close()
		stop()
		group.Wait()
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for bot.Keeper.Ready(ctx) != nil {
		<-time.After(5 * time.Millisecond)
	}
	return server.URL, bot
}

// awaitAlerts waits until incidents have want alerts.
func awaitAlerts(t *testing.T, bot *service.Service, want int) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		got := 0
		for _, in := range bot.Keeper.Incidents() {
			got += in.AlertCount
		}
		if got >= want {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d of %d alerts are part of incidents", got, want)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
