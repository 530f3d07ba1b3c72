// Package treatment recognises the changes that operators make to a fleet, such as "restart a
// worker", in sentences of advice. So a step can be compared with the warnings of another cause.
package treatment

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A treatment is a change that operators make, with a pattern that finds it in the catalogue's
// sentences.
type treatment struct {
	name string
	said *regexp.Regexp
}

// treatments lists the known treatments. A sentence may name several. "Restarts" is no order: it
// describes what another step does.
var treatments = []treatment{
	{lowerSeqs, regexp.MustCompile(lower + ` [^;.]*` + seqs)},
	{raiseSeqs, regexp.MustCompile(raise + ` [^;.]*` + seqs)},
	{lowerMemory, regexp.MustCompile(lower + ` [^;.]*` + memory)},
	{raiseMemory, regexp.MustCompile(raise + ` [^;.]*` + memory)},
	{lowerLength, regexp.MustCompile(lower + ` [^;.]*max[_-]model[_-]len`)},
	{lowerBatched, regexp.MustCompile(lower + ` [^;.]*` + batched)},
	{raiseBatched, regexp.MustCompile(raise + ` [^;.]*` + batched)},
	{Tune, regexp.MustCompile(`^tuning|^tune|engine settings`)},
	{"scale out", regexp.MustCompile(`^(scal\w+ out|adding|add (a |one )?(replica|worker)s?|` +
		`scal\w+ (it|the pool) (out|up))|; scal\w+ out| or scal\w+ out`)},
	{RestartAll, regexp.MustCompile(restart + ` (the )?(whole pool|several workers|workers|everything|engines|all|pods)`)},
	{Restart, regexp.MustCompile(restart + ` (the )?(\w+ ){0,2}(worker|pod|engine)|` +
		restart + ` (the )?whole (group|tensor|tp)|` + restart + ` [^;.]* with its whole|^restart (it|the fullest)|deleting the pod|killing`)},
	{RestartOthers, regexp.MustCompile(restart + ` (the )?(other )?workers`)},
	{"restart one rank", regexp.MustCompile(`one rank (of [\w -]+ )?only`)},
	{"restart the router", regexp.MustCompile(restart + ` the (router|gateway|endpoint picker)`)},
	{Cordon, regexp.MustCompile(`\bcordon(ing)?\b`)},
	{"flush the prefix cache", regexp.MustCompile(`flush\w*|reset\w* the prefix cache`)},
	{"raise the memory limit", regexp.MustCompile(raise + ` (the |the container's )?(memory )?limit`)},
	{"roll back", regexp.MustCompile(`roll\w*( \w+){0,3} back|rollback`)},
	{"turn on chunked prefill", regexp.MustCompile(`turn\w* on chunked prefill`)},
	{"wait", regexp.MustCompile(`^wait`)},
}

// The parts of the patterns.
const (
	lower   = `\b(lower|cut|reduc|halve)\w*( or rais\w+)?`
	raise   = `\brais\w*( or lower\w*)?`
	restart = `\brestart(ing)?`
	seqs    = `max[_-]num[_-]seqs`
	memory  = `gpu[_-]memory[_-]utilization`
	batched = `max[_-]num[_-]batched[_-]tokens`
)

const (
	lowerSeqs, raiseSeqs       = "lower max_num_seqs", "raise max_num_seqs"
	lowerMemory, raiseMemory   = "lower gpu_memory_utilization", "raise gpu_memory_utilization"
	lowerBatched, raiseBatched = "lower max_num_batched_tokens", "raise max_num_batched_tokens"
	lowerLength                = "lower max_model_len"
)

// includes maps treatments to those that they include: restarting all includes restarting one, and
// setting an argument is tuning.
var includes = map[string]string{
	RestartAll: Restart, lowerSeqs: Tune, raiseSeqs: Tune, lowerMemory: Tune, raiseMemory: Tune, lowerBatched: Tune, raiseBatched: Tune,
	lowerLength: Tune,
}

// The treatments that other packages refer to.
const (
	Restart       = "restart a worker"
	RestartOthers = "restart other workers"
	RestartAll    = "restart all at once"
	Cordon        = "cordon"
	Tune          = "tune the engine" // set any argument of it
)

// In returns the treatments that a sentence of advice or of a warning names, such as "raise
// max_num_seqs". It knows the words of the catalogue and the playbooks for them; other words name
// none. The result must not be changed.
func In(sentence string) []string {
	cache.Lock()
	out, ok := cache.known[sentence]
	cache.Unlock()
	if ok {
		return out
	}
	out = find(sentence)
	cache.Lock()
	defer cache.Unlock()
	if len(cache.known) == mostCached {
		clear(cache.known)
	}
	cache.known[sentence] = out
	return out
}

// cache holds the treatments of sentences. To find them takes 60 µs, and every verdict asks for the
// same few dozen sentences. Those with names of pods are many, so it is emptied when it is full.
var cache = struct {
	sync.Mutex
	known map[string][]string
}{known: map[string][]string{}}

const mostCached = 4096

func find(sentence string) []string {
	s := strings.ToLower(strings.TrimSpace(sentence))
	var out []string
	for _, t := range treatments {
		if t.said.MatchString(s) {
			out = append(out, t.name)
		}
	}
	not := func(names ...string) {
		out = slices.DeleteFunc(out, func(t string) bool { return slices.Contains(names, t) })
	}
	switch {
	case strings.Contains(s, "other workers"):
		not(Restart, RestartAll)
	case oneByOne.MatchString(s):
		not(RestartAll)
	case slices.Contains(out, RestartAll) && strings.Contains(s, "at once"):
		not(Restart, RestartOthers)
	}
	return out
}

var oneByOne = regexp.MustCompile(`one( \w+)? at a time`)

// OfArgument returns the treatment of setting an engine's argument. Direction is lower or raise.
func OfArgument(direction, arg string) string { return direction + " " + arg }

// Whole returns the treatments with those that they include.
func Whole(list []string) []string {
	out := slices.Clone(list)
	for _, t := range list {
		if also := includes[t]; also != "" && !slices.Contains(out, also) {
			out = append(out, also)
		}
	}
	return out
}

// Held reports whether a caution about a treatment holds a step back. A restart is not held back if
// the same advice cordons the node: warnings of restarts are about landing on that node again.
func Held(step []string, caution string, cordons bool) bool {
	return slices.Contains(step, caution) && !(cordons && caution == Restart)
}
