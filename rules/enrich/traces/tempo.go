package traces

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

// tempo is Grafana Tempo: GET /api/search with TraceQL (pkg/api/http.go, pkg/tempopb/tempo.proto,
// 2.x and 3.x).
type tempo struct{ caller }

// spansOfTrace is how many spans of a trace are asked for: an engine's request, its stages on every
// rank, the router's choice.
const spansOfTrace = 40

// find asks for the pool's own spans first, and then for the router's in the same traces, which are
// of another service. Where the first gives too few, it asks for the spans of all engines instead:
// where traces do not say which pool they are of, a filter finds nothing.
func (t tempo) find(ctx context.Context, scope state.Scope, from, to time.Time) ([]span, error) {
	var own []span
	if q := "{ (" + engines + ") && (" + placesOf(scope.Pool) + ") }"; scope.Pool != "" && len(q+fields) <= longest {
		var err error
		if own, err = t.search(ctx, q, maxTraces, from, to); err != nil {
			return nil, err
		}
	}
	next := "{ " + engines + ` || name = "` + nameRouting + `" }`
	if len(requestsOf(own).requests) >= MinRequests {
		if !slices.ContainsFunc(own, func(s span) bool { return s.root != s.text(keyService) }) {
			return own, nil // nothing stands before the engine in these traces
		}
		next = `{ name = "` + nameRouting + `" }`
	}
	more, err := t.search(ctx, next, maxTraces, from, to)
	if err != nil && len(own) > 0 {
		return own, nil //nolint:nilerr // what was found is better than nothing
	}
	return join(own, more), err
}

func (t tempo) ping(ctx context.Context, now time.Time) error {
	_, err := t.search(ctx, "{ "+engines+" }", 1, now.Add(-time.Minute), now)
	return err
}

// longest is how long a query may be: of some that are over a kilobyte Tempo's parser (3.1) loses
// the end.
const longest = 1024

// engines is the condition on the spans that engines write.
const engines = `name =~ "` + nameRequest + `|` + nameWaiting + `|` + namePrefill + `" || span.` + keyModule + ` = "` + moduleSGLang + `"`

// placesOf is the condition that a span says it is of a pool. The name comes from outside and is
// quoted.
func placesOf(pool string) string {
	return "resource." + keyService + " = " + strconv.Quote(pool) + " || resource." + keyDeployment + " = " + strconv.Quote(pool) +
		" || resource." + keyPod + " =~ " + strconv.Quote(regexp.QuoteMeta(pool)+"-.+")
}

// fields is what a search gives of each span.
var fields = func() string {
	out := []string{"name"}
	for _, key := range spanKeys {
		out = append(out, "span."+key)
	}
	for _, key := range resourceKeys {
		out = append(out, "resource."+key)
	}
	return " | select(" + strings.Join(out, ", ") + ")"
}()

// tempoAnswer is a search's answer. Tempo writes a trace's spans as one or several sets; spanSet is
// the older form of the first.
type tempoAnswer struct {
	Traces []struct {
		TraceID  string     `json:"traceID"`
		Root     string     `json:"rootServiceName"`
		SpanSet  tempoSet   `json:"spanSet"`
		SpanSets []tempoSet `json:"spanSets"`
	} `json:"traces"`
}

type tempoSet struct {
	Spans []struct {
		ID         string      `json:"spanID"`
		Name       string      `json:"name"`
		Start      loose       `json:"startTimeUnixNano"`
		Duration   loose       `json:"durationNanos"`
		Attributes []attribute `json:"attributes"`
	} `json:"spans"`
}

func (t tempo) search(ctx context.Context, query string, limit int, from, to time.Time) ([]span, error) {
	var a tempoAnswer
	err := t.get(ctx, "api/search", url.Values{
		"q": {query + fields}, "limit": {strconv.Itoa(limit)}, "spss": {strconv.Itoa(spansOfTrace)},
		"start": {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix()+1, 10)},
	}, &a)
	if err != nil {
		return nil, err
	}
	var out []span
	for _, tr := range a.Traces {
		sets := tr.SpanSets
		if len(sets) == 0 {
			sets = []tempoSet{tr.SpanSet}
		}
		seen := map[string]bool{}
		for _, set := range sets {
			for _, s := range set.Spans {
				if seen[s.ID] {
					continue
				}
				seen[s.ID] = true
				sp := span{trace: tr.TraceID, id: s.ID, root: tr.Root, name: s.Name, start: s.Start.time(), duration: time.Duration(s.Duration), values: map[string]value{}}
				put(sp.values, s.Attributes)
				for key, v := range sp.values {
					if v.text == "nil" { // so Tempo writes some attributes that a resource lacks
						delete(sp.values, key)
					}
				}
				out = append(out, sp)
			}
		}
	}
	return out, nil
}

// join adds the spans that are not there yet.
func join(have, more []span) []span {
	known := map[string]bool{}
	for _, s := range have {
		known[s.trace+s.id] = true
	}
	for _, s := range more {
		if !known[s.trace+s.id] {
			have = append(have, s)
		}
	}
	return have
}
