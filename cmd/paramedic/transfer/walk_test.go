package transfer

import (
	"context"
	"strings"
	"testing"

	"paramedic/state"
	"paramedic/state/archive"
	"paramedic/state/jetstream"
)

// A busyVisitor is an export beside a bot that writes.
type busyVisitor struct {
	*census
	write func() error
}

func (v busyVisitor) Header(h archive.Header) error {
	if err := v.write(); err != nil {
		return err
	}
	return v.census.Header(h)
}

// A bot on an external server may write during an export. Such an export would mix two states.
func TestChangedStateIsNotExported(t *testing.T) {
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for name, write := range map[string]func() error{
		"an input": func() error { return store.Append(t.Context(), state.Input{Cluster: "prod"}) },
		"a commit": func() error {
			_, err := store.Commit(t.Context(), 0, state.Fence{}, 0, []state.Record{{Key: "halt.prod", Value: []byte("{}")}})
			return err
		},
	} {
		if err := walk(t.Context(), store, busyVisitor{newCensus(), write}); err == nil ||
			!strings.Contains(err.Error(), "stop every replica of the bot") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := walk(t.Context(), store, newCensus()); err != nil {
		t.Errorf("an idle store: %v", err)
	}
}

// A census finds every difference that an import could make.
func TestCensusFindsDifferences(t *testing.T) {
	take := func(change func(c *census) error) *census {
		c := newCensus()
		for _, err := range []error{c.Header(archive.Header{Last: 9}), c.Input(archive.Input{Seq: 4, Data: []byte("a")}),
			c.Partition(archive.Partition{Position: 4}), c.Record(0, state.Record{Key: "incident.INC-1", Value: []byte(`{"id":"INC-1"}`)}),
			c.Record(0, state.Record{Key: "timeline.INC-1.1", Value: []byte("{}")}), change(c)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	want := take(func(*census) error { return nil })
	if err := take(func(*census) error { return nil }).equal(want); err != nil {
		t.Errorf("the same differs: %v", err)
	}
	for name, change := range map[string]func(c *census) error{
		"another end":         func(c *census) error { c.last = 10; return nil },
		"one more input":      func(c *census) error { return c.Input(archive.Input{Seq: 5}) },
		"another input":       func(c *census) error { c.inputs--; return c.Input(archive.Input{Seq: 4, Data: []byte("b")}) },
		"one more partition":  func(c *census) error { return c.Partition(archive.Partition{Partition: 1}) },
		"another position":    func(c *census) error { c.partitions[0].position++; return nil },
		"one more record":     func(c *census) error { return c.Record(0, state.Record{Key: "halt.prod", Value: []byte("{}")}) },
		"one more entry":      func(c *census) error { return c.Record(0, state.Record{Key: "timeline.INC-1.2", Value: []byte("{}")}) },
		"an incident's state": func(c *census) error { c.incidents["INC-1"] = state.StatusResolved; return nil },
	} {
		if err := take(change).equal(want); err == nil {
			t.Errorf("%s is not found", name)
		}
	}
}
