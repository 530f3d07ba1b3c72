package fit

import "testing"

const file = `# A comment.
causes:
  - id: a
    prior: -12   # two words: é
    explains: {ttft_high: 1.5, "itl_high": 2, gpu_idle: 0.5}
    evidence:
      - when: x.value > 1
        weight: 18
        text: "18 °C"
        else: {when: "y.value > 2", text: "ééé, weight: -14", weight: -14}
      # Between.
      - {when: z.value, weight: +3, text: none}
  - id: b
    prior: -6
symptoms: []
`

func TestRewriteChangesNothingButWeights(t *testing.T) {
	got, found, err := Rewrite([]byte(file), map[string]float64{"a/prior": -9, "a/symptom:itl_high": 10, "a/symptom:gpu_idle": 0.5,
		"a/evidence/0": 7, "a/evidence/0/else": -2, "a/evidence/1": 12, "c/prior": 1})
	if err != nil {
		t.Fatal(err)
	}
	const want = `# A comment.
causes:
  - id: a
    prior: -9   # two words: é
    explains: {ttft_high: 1.5, "itl_high": 10, gpu_idle: 0.5}
    evidence:
      - when: x.value > 1
        weight: 7
        text: "18 °C"
        else: {when: "y.value > 2", text: "ééé, weight: -14", weight: -2}
      # Between.
      - {when: z.value, weight: 12, text: none}
  - id: b
    prior: -6
symptoms: []
`
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
	if len(found) != 6 {
		t.Errorf("found %v", found)
	}
}

func TestRewriteLeavesEqualWeights(t *testing.T) {
	got, _, err := Rewrite([]byte(file), map[string]float64{"a/evidence/1": 3, "b/prior": -6})
	if err != nil || string(got) != file {
		t.Errorf("%v, got\n%s", err, got)
	}
	if _, _, err := Rewrite([]byte("a: [b"), nil); err == nil {
		t.Error("no error for broken YAML")
	}
}
