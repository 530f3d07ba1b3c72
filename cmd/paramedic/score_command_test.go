package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/cmd/paramedic/score"
)

func TestLabScoreInJSON(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"lab", "score", "--seeds", "1", "--first", "3", "--faults", " engine_hang, engine_hang",
		"-o", "json"}, &out, &errs); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var got struct {
		Faults []score.FaultScore `json:"faults"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Errorf("nobody looks at a terminal, and standard error has %q", errs.String())
	}
	if len(got.Faults) != 1 || got.Faults[0].Right != 1 || got.Faults[0].SecondsToDiagnosis == nil {
		t.Errorf("%+v", got.Faults)
	}
	for _, bad := range [][]string{{"--seeds", "0"}, {"--faults", "nonsense"}} {
		if code := run(context.Background(), append([]string{"lab", "score"}, bad...), &out, &errs); code != exitError {
			t.Errorf("%v: exit %d", bad, code)
		}
	}
}

// Invalid flags and an unwritable matrix are reported before any trial.
func TestScoreChecksItsFlagsFirst(t *testing.T) {
	for _, faults := range []string{"engine_hang,,kv_leak", "engine_hang, ", " "} {
		var out bytes.Buffer
		code := run(t.Context(), []string{"lab", "score", "--faults", faults}, &out, &out)
		if want := "paramedic: --faults: a name is empty: remove the extra comma\n"; code != exitError ||
			out.String() != want {
			t.Errorf("--faults %q: exit %d: %s", faults, code, out.String())
		}
	}
	for want, s := range map[string]score.Selection{
		"nothing to play": {Seeds: 1, Faults: []string{}, Options: score.Options{Engine: "vllm"}},
		"--matrix: ": {Seeds: 1, Faults: []string{"no such fault"}, Matrix: filepath.Join(t.TempDir(), "none", "m.svg"),
			Options: score.Options{Engine: "vllm"}},
	} {
		if err := (&cli{out: io.Discard, err: io.Discard}).score(t.Context(), s); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
