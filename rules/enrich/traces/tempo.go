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

// tempo reads Grafana Tempo: GET /api/search with TraceQL (pkg/api/http.go,
// pkg/tempopb/tempo.proto, 2.x and 3.x).
type tempo struct{ caller }

// spansOfTrace limits the spans per trace in an answer. It leaves space for the request, its stages
// on every rank, and the router's span.
const spansOfTrace = 40

// find searches for the pool's own spans. If it finds enough, it then searches for the router's
// spans, which belong to another service. If not, it searches for the spans of all engines, because
// a filter by pool finds nothing if spans do not name their pool.
func (t tempo) find(ctx context.Context, scope state.Scope, from, to time.Time) ([]span, error) {
	var own []span
	if q := "{ (" + engines + ") && (" + placesOf(scope.Pool) + ") }"; scope.Pool != "" && len(q+fields) <= maxQuery {
		var err error
		if own, err = t.search(ctx, q, maxTraces, from, to); err != nil {
			return nil, err
		}
	}
	next := "{ " + engines + ` || name = "` + nameRouting + `" }`
	if len(requestsOf(own).requests) >= MinRequests {
		if !slices.ContainsFunc(own, func(s span) bool { return s.root != s.text(keyService) }) {
			return own, nil // no router stands before the engine in these traces
		}
		next = `{ name = "` + nameRouting + `" }`
	}
	more, err := t.search(ctx, next, maxTraces, from, to)
	if err != nil && len(own) > 0 {
		return own, nil //nolint:nilerr // the spans found so far are better than none
	}
	return join(own, more), err
}

func (t tempo) ping(ctx context.Context, now time.Time) error {
	_, err := t.search(ctx, "{ "+engines+" }", 1, now.Add(-time.Minute), now)
	return err
}

// maxQuery is the longest query, in bytes. Tempo 3.1 cuts some queries that are longer than a
// kilobyte.
const maxQuery = 1024

// engines is the condition that selects the spans of engines.
const engines = `name =~ "` + nameRequest + `|` + nameWaiting + `|` + namePrefill + `" || span.` + keyModule + ` = "` + moduleSGLang + `"`

// placesOf returns the condition that a span names the pool. It quotes the name, which comes from
// outside.
func placesOf(pool string) string {
	return "resource." + keyService + " = " + strconv.Quote(pool) +
		" || resource." + keyDeployment + " = " + strconv.Quote(pool) +
		" || resource." + keyPod + " =~ " + strconv.Quote(regexp.QuoteMeta(pool)+"-.+")
}

// fields is the part of a query that selects the attributes to return.
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

// tempoAnswer is the answer to a search. Tempo returns a trace's spans in one or more sets; spanSet
// is the older field for the first.
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
		Start      lenientInt  `json:"startTimeUnixNano"`
		Duration   lenientInt  `json:"durationNanos"`
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
				sp := span{trace: tr.TraceID, id: s.ID, root: tr.Root, name: s.Name, start: s.Start.time(),
					duration: time.Duration(s.Duration), values: map[string]value{}}
				setAttributes(sp.values, s.Attributes)
				for key, v := range sp.values {
					if v.text == "nil" { // Tempo's form of some resource attributes that are missing
						delete(sp.values, key)
					}
				}
				out = append(out, sp)
			}
		}
	}
	return out, nil
}

// join adds the spans of more that have does not contain.
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
