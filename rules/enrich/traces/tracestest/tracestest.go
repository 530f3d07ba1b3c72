// Package tracestest fakes Tempo and Jaeger for tests.
//
// The fakes check paths, parameters and TraceQL. They also refuse parameters and parts of TraceQL
// that package traces does not use. They answer in the forms of Tempo 3 (pkg/tempopb) and Jaeger
// 1.53 to 2.20 (api_v3).
package tracestest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A Span is one span in a store. Attribute values are strings, int64s and float64s.
type Span struct {
	Trace, ID, Name      string
	Start                time.Time
	Duration             time.Duration
	Resource, Attributes map[string]any
}

// A Store holds spans and serves them as Tempo or as Jaeger. It is safe for concurrent use.
type Store struct {
	Token string // if set, every request must send it as its bearer token

	mu      sync.Mutex
	spans   []Span
	asked   []string // the path of every request, with its TraceQL or service
	refused []string // the reasons of refused requests
}

// Add adds spans.
func (s *Store) Add(spans ...Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range spans {
		if sp.ID == "" {
			sp.ID = fmt.Sprintf("%016x", len(s.spans)+1)
		}
		s.spans = append(s.spans, sp)
	}
}

// Asked returns all requests so far: the path, with its TraceQL or service.
func (s *Store) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Refused returns the reasons of refused requests.
func (s *Store) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

func (s *Store) refuse(w http.ResponseWriter, code int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.refused = append(s.refused, text)
	http.Error(w, text, code)
}

// params checks that a request has exactly the needed parameters.
func params(q url.Values, needed ...string) error {
	for _, n := range needed {
		if len(q[n]) != 1 || q.Get(n) == "" {
			return fmt.Errorf("want one parameter %s", n)
		}
	}
	for n := range q {
		if !slices.Contains(needed, n) {
			return fmt.Errorf("unexpected parameter %s", n)
		}
	}
	return nil
}

func (s *Store) enter(w http.ResponseWriter, r *http.Request) bool {
	if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
		s.refuse(w, http.StatusUnauthorized, "unauthorised")
		return false
	}
	if r.Method != http.MethodGet {
		s.refuse(w, http.StatusMethodNotAllowed, "want GET")
		return false
	}
	return true
}

// Tempo returns a handler for GET /api/search.
func (s *Store) Tempo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.enter(w, r) {
			return
		}
		s.asked = append(s.asked, r.URL.Path+" "+r.URL.Query().Get("q"))
		if r.URL.Path != "/api/search" {
			s.refuse(w, http.StatusNotFound, "no such path %s", r.URL.Path)
			return
		}
		s.search(w, r.URL.Query())
	})
}

func (s *Store) search(w http.ResponseWriter, q url.Values) {
	if err := params(q, "q", "limit", "spss", "start", "end"); err != nil {
		s.refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	var n [4]int64
	for i, key := range []string{"limit", "spss", "start", "end"} {
		v, err := strconv.ParseInt(q.Get(key), 10, 64)
		if err != nil || v <= 0 {
			s.refuse(w, http.StatusBadRequest, "invalid %s: %q", key, q.Get(key))
			return
		}
		n[i] = v
	}
	limit, spss, from, to := int(n[0]), int(n[1]), time.Unix(n[2], 0), time.Unix(n[3], 0)
	if spss > 100 || from.After(to) {
		s.refuse(w, http.StatusBadRequest, "spans per span set exceeds 100, or start is after end")
		return
	}
	query, err := parseTraceQL(q.Get("q"))
	if err != nil {
		s.refuse(w, http.StatusBadRequest, "invalid TraceQL query: %v", err)
		return
	}
	traces := []any{}
	for _, id := range s.between(from, to) {
		spans := query.match(s.of(id))
		if len(spans) == 0 || len(traces) == limit {
			continue
		}
		root := slices.MinFunc(s.of(id), func(a, b Span) int { return a.Start.Compare(b.Start) })
		set := map[string]any{"matched": len(spans), "spans": query.render(spans[:min(spss, len(spans))])}
		traces = append(traces, map[string]any{"traceID": id,
			"rootServiceName": fmt.Sprint(root.Resource["service.name"]), "rootTraceName": root.Name,
			"startTimeUnixNano": strconv.FormatInt(root.Start.UnixNano(), 10),
			"durationMs":        root.Duration.Milliseconds(), "spanSet": set, "spanSets": []any{set}})
	}
	s.answer(w, map[string]any{"traces": traces, "metrics": map[string]any{"inspectedBytes": "4711", "completedJobs": 1,
		"totalJobs": 1}})
}

func (s *Store) answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// between returns the IDs of the traces that overlap with the time range, the last added first.
func (s *Store) between(from, to time.Time) []string {
	var out []string
	for _, sp := range slices.Backward(s.spans) {
		if !sp.Start.Add(sp.Duration).Before(from) && !sp.Start.After(to) && !slices.Contains(out, sp.Trace) {
			out = append(out, sp.Trace)
		}
	}
	return out
}

func (s *Store) of(trace string) []Span {
	var out []Span
	for _, sp := range s.spans {
		if sp.Trace == trace {
			out = append(out, sp)
		}
	}
	return out
}

// Jaeger returns a handler for GET /api/v3/services and GET /api/v3/traces. Every other path
// returns the user interface's page, as in Jaeger.
func (s *Store) Jaeger() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.enter(w, r) {
			return
		}
		q := r.URL.Query()
		s.asked = append(s.asked, r.URL.Path+" "+q.Get("query.service_name"))
		switch r.URL.Path {
		case "/api/v3/services":
			if err := params(q); err != nil {
				s.refuse(w, http.StatusBadRequest, "%v", err)
				return
			}
			services := []string{}
			for _, sp := range s.spans {
				if name := fmt.Sprint(sp.Resource["service.name"]); !slices.Contains(services, name) {
					services = append(services, name)
				}
			}
			s.answer(w, map[string]any{"services": services})
		case "/api/v3/traces":
			s.findTraces(w, q)
		default:
			fmt.Fprint(w, "<!doctype html><title>Jaeger UI</title>")
			s.refused = append(s.refused, "no such path "+r.URL.Path)
		}
	})
}

func (s *Store) findTraces(w http.ResponseWriter, q url.Values) {
	from, err := time.Parse(time.RFC3339Nano, q.Get("query.start_time_min"))
	to, err2 := time.Parse(time.RFC3339Nano, q.Get("query.start_time_max"))
	limit, err3 := strconv.Atoi(q.Get("query.num_traces"))
	if bad := params(q, "query.service_name", "query.start_time_min", "query.start_time_max",
		"query.num_traces"); bad != nil || err != nil || err2 != nil || err3 != nil {
		s.refuse(w, http.StatusBadRequest, `{"error":{"httpCode":400,"message":"malformed parameter"}}`)
		return
	}
	resources := []any{}
	found := 0
	for _, id := range s.between(from, to) {
		spans := s.of(id)
		if found == limit ||
			!slices.ContainsFunc(spans,
				func(sp Span) bool { return sp.Resource["service.name"] == q.Get("query.service_name") }) {
			continue
		}
		found++
		for _, sp := range spans {
			resources = append(resources,
				map[string]any{"resource": map[string]any{"attributes": attributes(sp.Resource)},
					"scopeSpans": []any{map[string]any{"scope": map[string]any{},
						"spans": []any{map[string]any{"traceId": id, "spanId": sp.ID, "name": sp.Name, "kind": 2,
							"startTimeUnixNano": strconv.FormatInt(sp.Start.UnixNano(), 10),
							"endTimeUnixNano":   strconv.FormatInt(sp.Start.Add(sp.Duration).UnixNano(), 10),
							"attributes":        attributes(sp.Attributes), "status": map[string]any{}}}}}})
		}
	}
	if found == 0 {
		http.Error(w, `{"error":{"httpCode":404,"message":"No traces found"}}`, http.StatusNotFound)
		return
	}
	s.answer(w, map[string]any{"result": map[string]any{"resourceSpans": resources}})
}

// attributes returns values in OTLP's JSON form.
func attributes(values map[string]any) []any {
	var keys []string
	for k := range values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := []any{}
	for _, k := range keys {
		out = append(out, map[string]any{"key": k, "value": anyValue(values[k])})
	}
	return out
}

func anyValue(v any) map[string]any {
	switch v := v.(type) {
	case float64:
		return map[string]any{"doubleValue": v}
	case int64:
		return map[string]any{"intValue": strconv.FormatInt(v, 10)}
	default:
		return map[string]any{"stringValue": fmt.Sprint(v)}
	}
}
