package jetstream

import (
	"log/slog"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream/natstest"
)

// The holder loses its connection, as if it was killed or cut off. It gives up before another
// process takes over, so never two hold the lease.
func TestLeaseIsTakenOverAfterItsHolder(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the lease's own time")
	}
	url := natstest.Start(t)
	open := func() *Store {
		s, err := Open(t.Context(), Config{URL: url, Replicas: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := open()
	holds(t, a)
	b := open()
	defer closeIt(t, b)
	cut := time.Now()
	a.nc.Close()
	for !b.Held() {
		if now := time.Now(); a.Held() && b.Held() {
			t.Fatal("two processes hold the lease")
		} else if now.Sub(cut) > 10*time.Second {
			t.Fatal("no process took the lease over within 10 seconds")
		}
		<-time.After(10 * time.Millisecond)
	}
	if a.Held() {
		t.Error("the old holder still holds the lease")
	}
	_ = a.Close(t.Context()) // without a connection it cannot release the lease
	if !b.Held() {
		t.Error("the end of the old holder took the lease from the new one")
	}
}

// holds waits until a store holds the lease.
func holds(t *testing.T, s *Store) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		changed := s.Changed()
		if s.Held() {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Until(late)):
			t.Fatal("the store never got the lease")
		}
	}
}

// A process that resigns still takes inputs. Another one learns of it at once, and the first one
// never takes the lease again.
func TestResignedLeaseIsTakenAtOnce(t *testing.T) {
	url := natstest.Start(t)
	open := func() *Store {
		s, err := Open(t.Context(), Config{URL: url, Replicas: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeIt(t, s) })
		return s
	}
	a := open()
	holds(t, a)
	b := open()
	a.Resign(t.Context())
	if a.Held() {
		t.Error("the process that resigned holds the lease")
	}
	holds(t, b)
	if err := a.Append(t.Context(), state.Input{At: time.Now(), Cluster: "prod"}); err != nil {
		t.Error(err)
	}
}
