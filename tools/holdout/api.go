package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// An api answers Prometheus's query API from a store, for the bot's own client.
type api struct {
	store  *store
	engine *promql.Engine
}

func newAPI(s *store) *api {
	return &api{store: s, engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute,
		LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})})}
}

// RoundTrip implements http.RoundTripper.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	args := r.URL.Query()
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
		if form, err := url.ParseQuery(string(raw)); err == nil {
			for k, v := range form {
				args[k] = v
			}
		}
	}
	var q promql.Query
	var err error
	switch r.URL.Path {
	case "/api/v1/query":
		q, err = a.engine.NewInstantQuery(r.Context(), a.store, nil, args.Get("query"), unix(args.Get("time")))
	case "/api/v1/query_range":
		step, _ := strconv.ParseFloat(args.Get("step"), 64)
		q, err = a.engine.NewRangeQuery(r.Context(), a.store, nil, args.Get("query"), unix(args.Get("start")),
			unix(args.Get("end")), time.Duration(step*float64(time.Second)))
	default:
		return answer(r, http.StatusNotFound, map[string]any{"status": "error", "error": "not served here"})
	}
	if err != nil {
		return answer(r, http.StatusBadRequest, map[string]any{"status": "error", "errorType": "bad_data", "error": err.Error()})
	}
	defer q.Close()
	res := q.Exec(r.Context())
	if res.Err != nil {
		return answer(r, http.StatusUnprocessableEntity, map[string]any{"status": "error", "errorType": "execution",
			"error": res.Err.Error()})
	}
	return answer(r, http.StatusOK, map[string]any{"status": "success",
		"data": map[string]any{"resultType": res.Value.Type(), "result": encodable(res.Value)}})
}

// encodable returns a result in the form of Prometheus's JSON.
func encodable(v parser.Value) any {
	type point = [2]any
	pair := func(t int64, f float64) point {
		return point{float64(t) / 1000, strconv.FormatFloat(f, 'g', -1, 64)}
	}
	switch v := v.(type) {
	case promql.Vector:
		out := []any{}
		for _, s := range v {
			out = append(out, map[string]any{"metric": s.Metric.Map(), "value": pair(s.T, s.F)})
		}
		return out
	case promql.Matrix:
		out := []any{}
		for _, s := range v {
			points := []point{}
			for _, p := range s.Floats {
				points = append(points, pair(p.T, p.F))
			}
			out = append(out, map[string]any{"metric": s.Metric.Map(), "values": points})
		}
		return out
	case promql.Scalar:
		return pair(v.T, v.V)
	}
	return nil
}

func unix(s string) time.Time {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t, _ := time.Parse(time.RFC3339Nano, s)
		return t
	}
	return time.UnixMilli(int64(f * 1000)).UTC()
}

func answer(r *http.Request, status int, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Request: r, Proto: "HTTP/1.1",
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw))}, nil
}
