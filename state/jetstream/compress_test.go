package jetstream

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"paramedic/state"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/jetstream/wire"
	"paramedic/state/statetest"
)

func wordyInput() state.Input {
	return state.Input{ID: "in-1", Cluster: "prod", Alerts: &state.AlertBatch{Receiver: "paramedic",
		Alerts: []state.Alert{{Fingerprint: "f1", Annotations: map[string]string{"summary": strings.Repeat("the same words, ", 50)}}}}}
}

// An embedded store writes inputs and records compressed, and reads what it was given.
func TestEmbeddedStoreCompresses(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	s.limits = limits{} // records are written to their places
	record := state.Record{Key: "incident.a", Value: bytes.Repeat([]byte(`{"title":"KV cache exhausted"}`), 20)}
	entry := state.Record{Key: state.TimelinePrefix + ".a.1", Value: bytes.Repeat([]byte(`{"kind":"opened"}`), 20)}
	in := wordyInput()
	if err := s.Append(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	p := s.Partition(in.Cluster)
	if _, err := s.Commit(t.Context(), p, state.Fence{}, 1, []state.Record{record, entry}); err != nil {
		t.Fatal(err)
	}
	for subject, most := range map[string]int{recordSubject(p, record.Key): len(record.Value) / 3, recordSubject(p, entry.Key): len(entry.Value) / 3} {
		m, err := s.st.GetLastMsgForSubject(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		if m.Data[0] != wire.Compressed || len(m.Data) > most {
			t.Errorf("%s is stored in %d bytes: %q", subject, len(m.Data), m.Data[:10])
		}
	}
	m, err := s.in.GetLastMsgForSubject(t.Context(), inputSubject(p))
	if err != nil || m.Data[0] != wire.Compressed || len(m.Data) > 400 {
		t.Errorf("the input is stored as %q: %v", m.Data, err)
	}
	values, _, err := s.Load(t.Context(), p, statetest.Raw)
	if err != nil || len(values) != 1 || !bytes.Equal(values[0].(state.Record).Value, record.Value) {
		t.Errorf("loaded %v: %v", values, err)
	}
	listed, err := s.List(t.Context(), p, state.TimelinePrefix+".a")
	if err != nil || len(listed) != 1 || !bytes.Equal(listed[0].Value, entry.Value) {
		t.Errorf("listed %v: %v", listed, err)
	}
	reader, err := s.Inputs(t.Context(), p, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got, err := reader.Next(t.Context())
	if err != nil || got.Alerts.Alerts[0].Annotations["summary"] != in.Alerts.Alerts[0].Annotations["summary"] {
		t.Errorf("read %+v: %v", got, err)
	}
	if err := s.EachInput(t.Context(), func(l Logged) error {
		if !bytes.HasPrefix(l.Data, []byte(`{"id":"in-1"`)) {
			return fmt.Errorf("exported as %q", l.Data)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A replica of an older version may have to read what this one writes to an external server.
func TestExternalStoreStaysPlain(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: natstest.Start(t), Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, s)
	in := wordyInput()
	if err := s.Append(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	m, err := s.in.GetLastMsgForSubject(t.Context(), inputSubject(s.Partition(in.Cluster)))
	if err != nil || !bytes.HasPrefix(m.Data, []byte(`{"id":"in-1"`)) {
		t.Errorf("the input is stored as %q: %v", m.Data, err)
	}
	if got := s.in.CachedInfo().Config.Metadata[formatKey]; got != "2" {
		t.Errorf("the format is %s, want that of older versions", got)
	}
}

// A record that cannot be decompressed is damage, and an input that cannot is set aside.
func TestBrokenCompressionIsDamage(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	s.limits = limits{}
	p := s.Partition("prod")
	if _, err := s.Commit(t.Context(), p, state.Fence{}, 1, []state.Record{{Key: "incident.a", Value: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	broken := []byte{wire.Compressed, 0x20, 0x01}
	for _, subject := range []string{recordSubject(p, "incident.a"), inputSubject(p)} {
		if _, err := s.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: broken}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := s.Load(t.Context(), p, statetest.Raw)
	if !errorIs[*state.DamagedError](err) || !strings.Contains(err.Error(), "incident.a") {
		t.Errorf("a load: %v", err)
	}
	reader, err := s.Inputs(t.Context(), p, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if in, err := reader.Next(t.Context()); !errorIs[*state.UnreadableError](err) {
		t.Errorf("an input: %+v, %v", in, err)
	}
}

func errorIs[E error](err error) bool {
	var want E
	return errors.As(err, &want)
}
