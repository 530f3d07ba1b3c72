package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"paramedic/internal/disktest"
	"paramedic/state"
)

// A full disk accepts nothing. When it has room again, the same process accepts alerts, and
// everything that was accepted is there.
func TestFullDiskRecovers(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the store to be opened again")
	}
	t.Parallel()
	dir := disktest.Small(t, 48<<20)
	clock := newHandClock()
	b, _ := startOn(t, dir, clock)
	until(t, "the bot is ready", func() bool { return b.Ready(t.Context()) == nil })
	accepted := 0
	send := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		batch := &state.AlertBatch{}
		for range alertsInEach {
			batch.Alerts = append(batch.Alerts, state.Alert{Fingerprint: state.Fingerprint(fmt.Sprintf("%08x", accepted+len(batch.Alerts))),
				Status:   state.Firing,
				StartsAt: clock.Now(), Labels: map[string]string{"alertname": "KVFull", "symptom": "kv_pressure", "pool": "p"}})
		}
		err := b.Append(ctx, state.Input{Cluster: "prod", Alerts: batch})
		if err == nil {
			accepted += alertsInEach
		}
		return err
	}
	for range 5 {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "they are counted", func() bool { return count(b.Keeper) >= accepted })
	full := disktest.Fill(t, dir)
	until(t, "alerts are refused", func() bool { return errors.Is(send(), state.ErrUnavailable) })
	until(t, "the bot says that it is not ready", func() bool {
		_ = send() // the sender tries again
		return b.Ready(t.Context()) != nil
	})
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "alerts are taken again", func() bool {
		clock.advance(time.Second) // the keeper waits before it tries again
		return send() == nil
	})
	within(t, time.Minute, "what was accepted is counted", func() bool {
		clock.advance(time.Second)
		return count(b.Keeper) >= accepted && b.Ready(t.Context()) == nil
	})
	if b.store.Reopened() == 0 {
		t.Error("the store took writes again without being opened again: this test proves nothing")
	}
	b.stop()
	again, _ := startOn(t, dir, clock)
	until(t, "the bot is ready again", func() bool { return again.Ready(t.Context()) == nil })
	if got := count(again.Keeper); got < accepted {
		t.Errorf("%d alerts of %d are there after a restart", got, accepted)
	}
}

// within polls for longer than until does.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(d)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
