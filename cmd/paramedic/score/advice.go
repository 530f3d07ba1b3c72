package score

import (
	"regexp"
	"slices"
	"strings"

	"paramedic/playbooks"
	"paramedic/rules/catalog"
	"paramedic/state"
)

// A treatment is a change that operators make, with a pattern that finds it in the catalogue's
// sentences.
type treatment struct {
	name string
	said *regexp.Regexp
}

// treatments lists the treatments that are compared. A sentence may name several.
var treatments = []treatment{
	{"lower max_num_seqs", regexp.MustCompile(`(lower|cut|reduc)\w*( or rais\w+)? [^;.]*max_num_seqs`)},
	{"raise max_num_seqs", regexp.MustCompile(`rais\w*( or lower\w*)? [^;.]*max_num_seqs`)},
	{"lower gpu_memory_utilization", regexp.MustCompile(`(lower|cut|reduc)\w* [^;.]*gpu_memory_utilization`)},
	{"raise gpu_memory_utilization", regexp.MustCompile(`rais\w* [^;.]*gpu_memory_utilization`)},
	{"cut max_model_len", regexp.MustCompile(`(lower|cut|reduc)\w* [^;.]*max_model_len`)},
	{"lower max_num_batched_tokens", regexp.MustCompile(`(lower|cut|reduc)\w* [^;.]*max_num_batched_tokens`)},
	{"raise max_num_batched_tokens", regexp.MustCompile(`rais\w* [^;.]*max_num_batched_tokens`)},
	{"tune the engine", regexp.MustCompile(`^tuning|^tune|engine settings`)},
	{"scale out", regexp.MustCompile(`^(scal\w+ out|adding|add (a |one )?(replica|worker)s?|` +
		`scal\w+ (it|the pool) (out|up))|; scal\w+ out| or scal\w+ out`)},
	{"restart all at once", regexp.MustCompile(`restart\w* (the )?(whole pool|workers|everything|engines|all|pods)`)},
	{"restart a worker", regexp.MustCompile(`restart\w* (the )?(\w+ )?(worker|pod|engine|it\b)|` +
		`restart\w* (the )?whole (tensor|tp)|restart\w* it|^restart (it|the (fullest|whole tensor))|deleting the pod|killing`)},
	{"restart one rank", regexp.MustCompile(`one rank (of [\w -]+ )?only`)},
	{"restart the router", regexp.MustCompile(`restart\w* the (router|gateway|endpoint picker)`)},
	{"cordon", regexp.MustCompile(`\bcordon`)},
	{"flush the prefix cache", regexp.MustCompile(`flush\w*|reset\w* the prefix cache`)},
	{"raise the memory limit", regexp.MustCompile(`rais\w* the (memory )?limit`)},
	{"roll back", regexp.MustCompile(`roll\w*( \w+){0,3} back|rollback`)},
	{"turn on chunked prefill", regexp.MustCompile(`turn\w* on chunked prefill`)},
	{"wait", regexp.MustCompile(`^wait`)},
}

// implied maps treatments to those that they include: restarting all includes restarting one, and
// setting an argument is tuning.
var implied = map[string]string{
	"restart all at once": "restart a worker", "lower max_num_seqs": "tune the engine",
	"raise max_num_seqs":           "tune the engine",
	"lower gpu_memory_utilization": "tune the engine", "raise gpu_memory_utilization": "tune the engine",
	"lower max_num_batched_tokens": "tune the engine", "raise max_num_batched_tokens": "tune the engine",
}

// treatmentsIn returns the treatments that a sentence names.
func treatmentsIn(sentence string) []string {
	s := strings.ToLower(strings.TrimSpace(sentence))
	var out []string
	for _, t := range treatments {
		if t.said.MatchString(s) {
			out = append(out, t.name)
		}
	}
	return out
}

// An Adviser compares the advice of a verdict with what makes the true cause worse.
type Adviser struct {
	catalog *catalog.Catalog
	library *playbooks.Library
}

// NewAdviser returns an adviser that reads the advice of these causes and playbooks.
func NewAdviser(c *catalog.Catalog, l *playbooks.Library) *Adviser { return &Adviser{c, l} }

// given returns the treatments that the advice for a cause names: its first aid in words, and its
// playbook's actions.
func (a *Adviser) given(cause state.Cause) []string {
	var out []string
	verdict := state.Diagnosis{Cause: cause}
	if c, ok := a.catalog.Cause(cause); ok {
		verdict.Playbook = c.Playbook
		for _, s := range a.catalog.WorstAdvice(c.Do) {
			out = append(out, treatmentsIn(s)...)
		}
	}
	if pb, ok := a.library.For(verdict); ok {
		for _, r := range pb.FirstAid {
			switch r.Action {
			case playbooks.ActionSetEngineArg:
				out = append(out, r.Params["direction"]+" "+r.Params["arg"])
			case playbooks.ActionRestartWorker:
				out = append(out, "restart a worker")
			}
		}
	}
	for _, t := range slices.Clone(out) {
		if also := implied[t]; also != "" {
			out = append(out, also)
		}
	}
	return out
}

// avoided returns the treatments that make a cause worse. Advice against restarting all at once
// does not forbid restarting one.
func (a *Adviser) avoided(cause state.Cause) []string {
	var out []string
	if c, ok := a.catalog.Cause(cause); ok {
		for _, s := range a.catalog.WorstAdvice(c.Avoid) {
			said := treatmentsIn(s)
			if slices.Contains(said, "restart all at once") && !strings.Contains(s, "at once") {
				said = append(said, "restart a worker") // restarting workers at all
			}
			out = append(out, said...)
		}
	}
	return out
}

// Harmful returns the advice of a verdict that the true cause's entry warns of. Advice that the
// true cause also gives does not count. Nor does a restart if the same advice cordons the node
// first, because the warning is about landing on that node again.
func (a *Adviser) Harmful(in *state.Incident, truth string) []string {
	verdict := in.Cause()
	if string(verdict) == truth || verdict == state.Unknown {
		return nil
	}
	given, own, avoided := a.given(verdict), a.given(state.Cause(truth)), a.avoided(state.Cause(truth))
	var out []string
	for _, t := range given {
		if !slices.Contains(avoided, t) || slices.Contains(own, t) && t != "restart a worker" ||
			t == "restart a worker" && slices.Contains(given, "cordon") {
			continue
		}
		if line := string(verdict) + " advises to " + t + ", which makes " + truth +
			" worse"; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
