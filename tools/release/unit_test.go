package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnitIsValidAndConfined(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("this machine has no systemd-analyze, of the package systemd")
	}
	text := string(must(os.ReadFile("../../deploy/systemd/paramedic.service"))(t))
	dir := t.TempDir()
	program := filepath.Join(dir, "paramedic")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(dir, "paramedic.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(text, "/usr/local/bin/paramedic", program)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", unit).CombinedOutput()
	if err != nil {
		t.Errorf("the unit's exposure is above 2.0 of 10:\n%s", out)
	}
}
