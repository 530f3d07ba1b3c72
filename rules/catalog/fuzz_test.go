package catalog

import (
	"testing"

	"paramedic/internal/strictyaml"
)

// FuzzRulesFile checks that reading any file terminates, and that every problem has a line.
func FuzzRulesFile(f *testing.F) {
	for _, seed := range []string{"causes: [{id: a}]", "alerts:\n - x\n  y", "a: &a [*a]", "causes: &c\n  - <<: *c", "---\n---\n",
		"causes:\n  - id: [", "xids: {1: 2}", "\t", "symptoms:\n- {? a : b}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		_, problems := strictyaml.Format[fileYAML]{Kinds: kinds}.Read("x.yaml", []byte(data))
		for _, p := range problems {
			if p.Line < 1 || p.Line > len(data)+1 || p.Text == "" {
				t.Errorf("%q: %+v", data, p)
			}
		}
	})
}
