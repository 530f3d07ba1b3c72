package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"paramedic/cmd/paramedic/service"
)

// A line that stands for others is expanded: no explanation contains an internal placeholder.
func TestShowListsAdviceByXid(t *testing.T) {
	show := func(id string) string {
		var out bytes.Buffer
		if code := run(t.Context(), []string{"rules", "show", id}, &out, &out); code != exitOK {
			t.Fatalf("rules show %s: exit %d: %s", id, code, out.String())
		}
		return out.String()
	}
	catalog, err := service.LoadRules("")
	if err != nil {
		t.Fatal(err)
	}
	inner := regexp.MustCompile(`\{[a-z_0-9.]+\}|<xid_(do|avoid|note)>`)
	for _, c := range catalog.Causes() {
		if m := inner.FindString(show(string(c.ID))); m != "" {
			t.Errorf("rules show %s prints %s", c.ID, m)
		}
	}
	for id, want := range map[string]string{"oom_killed": "settles host_memory_leak cannot replace this verdict later",
		"host_memory_leak": "open benign_alert may still be the cause (memory that stops rising below its limit): steps that make it worse wait"} {
		if !strings.Contains(strings.Join(strings.Fields(show(id)), " "), want) {
			t.Errorf("rules show %s lacks %q", id, want)
		}
	}
	fault := show("gpu_fault")
	for _, want := range []string{"After Xid 13, 31:", "After Xid 94:", "After Xid 154:", "Tuning the engine; no setting repairs hardware."} {
		if !strings.Contains(fault, want) {
			t.Errorf("rules show gpu_fault lacks %q:\n%s", want, fault)
		}
	}
}
