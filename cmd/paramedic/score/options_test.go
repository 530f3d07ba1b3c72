package score

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"paramedic/lab"
	"paramedic/lab/drill"
)

// A severity scales faults, and does not change decoys.
func TestSeverityScalesFaultsOnly(t *testing.T) {
	o := Options{severity: 1.5}
	fault, err := drill.New(lab.KVLeak, 1)
	if err != nil {
		t.Fatal(err)
	}
	decoy, err := drill.NewDecoy(lab.LoadTest, 1)
	if err != nil {
		t.Fatal(err)
	}
	was := decoy.Faults[0].Severity
	if got := o.Apply(fault).Faults[0].Severity; got != 3 {
		t.Errorf("a leak of severity 2 became one of %g, want 3", got)
	}
	if got := o.Apply(decoy).Faults[0].Severity; got != was {
		t.Errorf("a decoy's severity became %g", got)
	}
}

// An option of zero is an error. It does not fall back to the scenario's value.
func TestZeroOptionsAreRefused(t *testing.T) {
	for _, flag := range []string{"severity", "workers", "rate"} {
		var o Options
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.Flags(f)
		if err := o.Load(); err != nil {
			t.Fatal(err)
		}
		if err := f.Parse([]string{"--" + flag, "0"}); err != nil {
			t.Fatal(err)
		}
		if err := o.Load(); err == nil || !strings.Contains(err.Error(), "--"+flag+" is 0") {
			t.Errorf("%s: error %v", flag, err)
		}
	}
}
