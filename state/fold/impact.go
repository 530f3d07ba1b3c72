package fold

import "paramedic/state"

// takeImpact applies the impact of a later verdict, whether or not the verdict itself is taken, and
// reports whether it changed. After the last alert the impact stays: the pool drains, and signals
// that end say nothing of users.
func (x *step) takeImpact(in *state.Incident, d *state.Diagnosis) bool {
	if in.ActiveAlerts == 0 {
		d.Impact = in.Diagnosis.Impact
	}
	if d.Impact == in.Diagnosis.Impact {
		return false
	}
	in.Diagnosis.Impact = d.Impact
	if in.Cause() == state.Unknown && d.Cause == state.Unknown { // the channels depend on it
		x.record(in, state.Entry{Kind: "note", Quiet: true, Text: impactText(d.Impact)})
	}
	return true
}

// impactText describes the new impact of an incident without a cause.
func impactText(i state.Impact) string {
	switch i {
	case state.ImpactNone:
		return "users are served as usual: first tokens, token gaps, queue, failures and preemptions are healthy"
	case state.ImpactFelt:
		return "users feel it: first tokens, token gaps, queue, failures or preemptions are not healthy"
	}
	return "whether users feel it is unknown: not all of first tokens, token gaps, queue, failures and preemptions are measured"
}
