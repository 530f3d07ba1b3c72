package jetstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"paramedic/state"
	"paramedic/state/jetstream/connect"
	"paramedic/state/jetstream/natstest"
)

var embeddedStore = &Store{server: &connect.Embedded{}}

// FuzzDecompress feeds damaged values to decompress, and checks that compress is undone.
func FuzzDecompress(f *testing.F) {
	for line := range bytes.Lines(samples) {
		f.Add(line)
		f.Add(embeddedStore.compress(line))
	}
	f.Add([]byte{})
	f.Add([]byte{compressed})
	f.Add([]byte{compressed, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, value []byte) {
		if got, err := decompress(value); err == nil && len(got) > maxDecompressed {
			t.Errorf("%d bytes", len(got))
		}
		for _, s := range []*Store{embeddedStore, {}} {
			if got, err := decompress(s.compress(value)); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%q became %q: %v", value, got, err)
			}
		}
	})
}

func wordyInput() state.Input {
	return state.Input{ID: "in-1", Cluster: "prod", Alerts: &state.AlertBatch{Receiver: "paramedic",
		Alerts: []state.Alert{{Fingerprint: "f1", Annotations: map[string]string{"summary": strings.Repeat("the same words, ", 50)}}}}}
}

// An embedded store writes inputs and records compressed, and reads what it was given.
func TestEmbeddedStoreCompresses(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	s.inlineBytes = 0 // records are written to their places
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
		if m.Data[0] != compressed || len(m.Data) > most {
			t.Errorf("%s is stored in %d bytes: %q", subject, len(m.Data), m.Data[:10])
		}
	}
	m, err := s.in.GetLastMsgForSubject(t.Context(), inputSubject(p))
	if err != nil || m.Data[0] != compressed || len(m.Data) > 400 {
		t.Errorf("the input is stored as %q: %v", m.Data, err)
	}
	values, _, err := s.Load(t.Context(), p, func(r state.Record) (any, error) { return r, nil })
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
	s.inlineBytes = 0
	p := s.Partition("prod")
	if _, err := s.Commit(t.Context(), p, state.Fence{}, 1, []state.Record{{Key: "incident.a", Value: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	broken := []byte{compressed, 0x20, 0x01}
	for _, subject := range []string{recordSubject(p, "incident.a"), inputSubject(p)} {
		if _, err := s.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: broken}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := s.Load(t.Context(), p, func(r state.Record) (any, error) { return r, nil })
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

// BenchmarkCompress compresses values that the samples resemble more and less. size-% is the
// compressed size in percent of the plain one.
func BenchmarkCompress(b *testing.B) {
	noise := rand.NewChaCha8([32]byte{1})
	word := func() string { return strconv.FormatUint(noise.Uint64(), 36) }
	alert := func(labels int, text string) []byte {
		a := state.Alert{Fingerprint: state.Fingerprint(word()), Status: state.Firing, Labels: map[string]string{"alertname": word()},
			Annotations: map[string]string{"description": text}, GeneratorURL: "https://" + word() + "/graph?g0.expr=" + word()}
		for range labels {
			a.Labels[word()] = word()
		}
		raw, err := json.Marshal(state.AlertRecord{Alert: a})
		if err != nil {
			b.Fatal(err)
		}
		return raw
	}
	like := bytes.Split(samples, []byte{'\n'})
	for name, value := range map[string][]byte{
		"a-sample-with-other-numbers": bytes.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0' + rune(noise.Uint64()%10)
			}
			return r
		}, like[len(like)-2]),
		"unknown-labels": alert(12, "Der Dienst "+word()+" antwortet nicht mehr, seit "+word()+" neu verteilt wurde."),
		"random-text":    alert(1, randomText(noise, 900)),
	} {
		b.Run(name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(embeddedStore.compress(value))
			}
			b.ReportMetric(float64(len(value)), "bytes")
			b.ReportMetric(100*float64(size)/float64(len(value)), "size-%")
		})
	}
}

func randomText(noise *rand.ChaCha8, n int) string {
	raw := make([]byte, n)
	_, _ = noise.Read(raw) // it never fails
	return base64.StdEncoding.EncodeToString(raw)
}
