package remediate

import (
	"testing"

	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
)

func TestGivenConfigIsKept(t *testing.T) {
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Run.cfg; c.Clock == nil || c.Clock.Now().IsZero() || c.Logger == nil || c.ManagedLabel != "paramedic.dev/managed=true" {
		t.Errorf("%+v", c)
	}
	given := Config{Site: guard.Site{Clock: fixedClock{noon}, Rules: policy.Rules{ManagedLabel: "team=llm"}}, Logger: quietLogger}
	if r, err = New(given); err != nil {
		t.Fatal(err)
	}
	if c := r.Run.cfg; c.Clock != given.Clock || c.Logger != given.Logger || c.ManagedLabel != given.ManagedLabel || r.Plan.cfg != c {
		t.Errorf("%+v", c)
	}
}
