package packed_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"unsafe"

	"paramedic/state"
	"paramedic/state/fold/packed"
)

func TestVerdictsShareEqualTexts(t *testing.T) {
	read := func() (d state.Diagnosis) {
		if err := json.Unmarshal([]byte(`{"alternatives": [{"cause": "oom", "would_win_if": "a restart"}], "missing": ["up (none)"],
			"findings": [{"why": "often"}], "story": {"why": "no source", "do": ["check", "roll back"], "avoid": ["restart"]}}`), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	first, second, plain := read(), read(), read()
	packed.ShareTexts(&first)
	packed.ShareTexts(&second)
	if !reflect.DeepEqual(second, plain) {
		t.Fatalf("the verdict became %+v, want %+v", second, plain)
	}
	for name, texts := range map[string][2]string{"an alternative": {first.Alternatives[0].WouldWinIf, second.Alternatives[0].WouldWinIf},
		"a finding": {first.Findings[0].Why, second.Findings[0].Why}, "the story": {first.Story.Why, second.Story.Why}} {
		if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
			t.Errorf("two verdicts have copies of the text of %s", name)
		}
	}
	for name, lists := range map[string][2][]string{"steps": {first.Story.Do, second.Story.Do}, "avoid": {first.Story.Avoid, second.Story.Avoid},
		"missing": {first.Missing, second.Missing}} {
		if &lists[0][0] != &lists[1][0] {
			t.Errorf("two verdicts have copies of the list %s", name)
		}
	}
	two, one := state.Diagnosis{Missing: []string{"a", "b"}}, state.Diagnosis{Missing: []string{"a\nb"}}
	packed.ShareTexts(&two)
	packed.ShareTexts(&one)
	if len(one.Missing) != 1 {
		t.Errorf("a text of two lines became %q", one.Missing)
	}
}
