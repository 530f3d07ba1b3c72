package traces

import (
	"context"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

// tempo is Grafana Tempo: GET /api/search with TraceQL (pkg/api/http.go, pkg/tempopb/tempo.proto, 2.x and 3.x).
type tempo struct{ caller }

// spansOfTrace is how many spans of a trace are asked for: an engine's request, its stages on every rank, the router's choice.
const spansOfTrace = 40

// find asks for the scope's own spans first, and where that gives too few, for those of all engines: where traces do not say which
// pool they are of, a filter would find nothing.
func (t tempo) find(ctx context.Context, scope state.Scope, from, to time.Time) ([]span, error) {
	var own []span
	if scope.Pool != "" {
		var err error
		if own, err = t.search(ctx, traceQL(scope), maxTraces, from, to); err != nil {
			return nil, err
		}
		if len(requestsOf(own).requests) >= MinRequests {
			return own, nil
		}
	}
	all, err := t.search(ctx, traceQL(state.Scope{}), maxTraces, from, to)
	if err != nil && len(own) > 0 {
		return own, nil //nolint:nilerr // what was found is better than nothing
	}
	return join(own, all), err
}

func (t tempo) ping(ctx context.Context, now time.Time) error {
	_, err := t.search(ctx, traceQL(state.Scope{}), 1, now.Add(-time.Minute), now)
	return err
}

// traceQL is the search for engines' spans, of a pool where the scope names one, and for the router's choice in the same traces, which
// is of another service. Everything that comes from outside is quoted.
func traceQL(scope state.Scope) string {
	equal := func(key, v string) string { return key + " = " + strconv.Quote(v) }
	var kinds []string
	for _, name := range []string{nameRequest, nameWaiting, namePrefill} {
		kinds = append(kinds, equal("name", name))
	}
	kinds = append(kinds, equal("span."+keyModule, moduleSGLang))
	engines := "(" + strings.Join(kinds, " || ") + ")"
	if scope.Pool != "" {
		places := []string{
			equal("resource."+keyService, scope.Pool),
			equal("resource."+keyDeployment, scope.Pool),
			equal("resource."+keyStatefulSet, scope.Pool),
			"resource." + keyPod + " =~ " + strconv.Quote(regexp.QuoteMeta(scope.Pool)+"-[a-z0-9-]+"),
		}
		engines += " && (" + strings.Join(places, " || ") + ")"
	}
	fields := []string{"name"}
	for _, key := range spanKeys {
		fields = append(fields, "span."+key)
	}
	for _, key := range resourceKeys {
		fields = append(fields, "resource."+key)
	}
	return "({ " + engines + " } || ({ " + engines + " } && { " + equal("name", nameRouting) + " })) | select(" + strings.Join(fields, ", ") + ")"
}

// tempoAnswer is a search's answer. Tempo writes a trace's spans as one or several sets; spanSet is the older form of the first.
type tempoAnswer struct {
	Traces []struct {
		TraceID  string     `json:"traceID"`
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
		"q": {query}, "limit": {strconv.Itoa(limit)}, "spss": {strconv.Itoa(spansOfTrace)},
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
				sp := span{trace: tr.TraceID, name: s.Name, start: s.Start.time(), duration: time.Duration(s.Duration), values: map[string]value{}}
				put(sp.values, s.Attributes)
				if sp.name == "" {
					sp.name = sp.text("name")
				}
				out = append(out, sp)
			}
		}
	}
	return out, nil
}

// join adds to spans those of traces that are not among them yet.
func join(have, more []span) []span {
	known := map[string]bool{}
	for _, s := range have {
		known[s.trace] = true
	}
	for _, s := range more {
		if !known[s.trace] {
			have = append(have, s)
		}
	}
	return have
}
