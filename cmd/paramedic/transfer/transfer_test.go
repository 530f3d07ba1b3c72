package transfer_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
	"paramedic/state/jetstream/natstest"
)

// From the embedded JetStream to an external server and back, every incident stays, with its ID,
// its verdict and its timeline, although the log does not reach back to it. Nothing is told twice.
func TestMoveKeepsEveryIncident(t *testing.T) {
	from, want := filled(t)
	file := func(name string) string { return filepath.Join(t.TempDir(), name) }
	first, second := file("first"), file("second")
	said := must(t, "export", "--config", from.config, first)
	for _, part := range []string{"exported ", fmt.Sprintf(" %d incidents (", len(want)), " records\n"} {
		if !strings.Contains(said, part) {
			t.Errorf("the export says %q", said)
		}
	}
	external := newPlace(t, natstest.Start(t))
	said = must(t, "import", "--config", external.config, first)
	if !strings.Contains(said, "the store was read again and has the same") || !strings.Contains(said, fmt.Sprintf(" %d incidents (", len(want))) {
		t.Errorf("the import says %q", said)
	}
	must(t, "export", "--config", external.config, second)
	back := newPlace(t, "")
	must(t, "import", "--config", back.config, second)
	third := file("third")
	must(t, "export", "--config", back.config, third)
	for _, other := range []string{second, third} {
		if d := cmp.Diff(body(t, first), body(t, other)); d != "" {
			t.Errorf("the export of the new store differs:\n%.2000s", d)
		}
	}
	for _, p := range []place{external, back} {
		b := p.start(t)
		if d := cmp.Diff(want, b.incidents()); d != "" {
			t.Errorf("the list differs:\n%.2000s", d)
		}
		now := time.Now().UTC() // the bot works on: the next alert is the next incident
		b.send([]map[string]any{{"status": "firing", "startsAt": now, "labels": map[string]string{"alertname": "VLLMKVCacheExhaustion",
			"severity": "warning", "cluster": "prod", "namespace": "other", "model_name": "new", "pod": "vllm-new-6d5f8c7b9-abcde"}}})
		b.await("the new incident is told of", func() bool { return strings.Contains(b.said.text(), "■") })
		b.stop()
		if n := strings.Count(b.said.text(), "■"); n != 1 {
			t.Errorf("%d incidents are told of: %s", n, b.said.text())
		}
	}
}

// A file that was cut, changed or made by a newer version is refused, and nothing is written.
func TestBadFileIsRefusedAndNothingWritten(t *testing.T) {
	from, _ := filled(t)
	good := filepath.Join(t.TempDir(), "good")
	must(t, "export", "--config", from.config, good)
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(raw)
	flipped[bytes.Index(flipped, []byte("VLLMKVCacheExhaustion"))] ^= 0x20
	external := newPlace(t, natstest.Start(t))
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"cut in a line":    {raw[:len(raw)/2], "cut off"},
		"cut at a line":    {raw[:bytes.LastIndexByte(raw[:len(raw)-1], '\n')+1], "cut off"},
		"a flipped byte":   {flipped, "the file was changed"},
		"a newer version":  {bytes.Replace(raw, fmt.Appendf(nil, `"format":%d,`, state.Format), []byte(`"format":99,`), 1), "with format 99, and this Paramedic reads up to"},
		"no export at all": {[]byte("hello\n"), "no export of Paramedic's state"},
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, c.raw, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, to := range []place{newPlace(t, ""), external} {
			_, err := ran("import", "--config", to.config, bad)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Nothing was written") {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			if files := contents(t, to.dir); len(files) > 0 {
				t.Errorf("%s: it wrote %q", name, slices.Collect(maps.Keys(files)))
			}
		}
	}
	if streams := natstest.Streams(t, external.url); len(streams) > 0 {
		t.Errorf("there are streams %q", streams)
	}
}

// A store with anything in it stays as it is.
func TestStoreInUseIsNotFilled(t *testing.T) {
	from, want := filled(t)
	file := filepath.Join(t.TempDir(), "state.ndjson")
	must(t, "export", "--config", from.config, file)
	external := newPlace(t, natstest.Start(t))
	must(t, "import", "--config", external.config, file)
	for _, to := range []place{from, external} {
		if _, err := ran("import", "--config", to.config, file); err == nil || !strings.Contains(err.Error(), "the store is not empty: it has ") {
			t.Errorf("the import into a filled store: %v", err)
		}
		b := to.start(t)
		if d := cmp.Diff(want, b.incidents()); d != "" {
			t.Errorf("the list differs:\n%.2000s", d)
		}
		if to == from {
			if _, err := ran("export", "--config", to.config, filepath.Join(t.TempDir(), "x")); err == nil || !strings.Contains(err.Error(), "in use by another Paramedic") {
				t.Errorf("the export under a running bot: %v", err)
			}
		}
		b.stop()
	}
	if _, err := ran("export", "--config", from.config, file); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("an export over another: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("beside the file there are %v, %v", left, err)
	}
}
