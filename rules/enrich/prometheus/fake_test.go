package prometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeAPI is a Prometheus HTTP API over a store. It checks parameters as strictly as Prometheus,
// and fails queries that contain a given text.
type fakeAPI struct {
	t       testing.TB
	store   *store
	refuse  string
	noRange bool // refuses charts
	warns   bool // as if a store behind it did not answer
	longest int  // refuses longer queries, as VictoriaMetrics does; 0: none
	token   string
	delay   <-chan struct{}
	mu      sync.Mutex
	queries []string
	asked   []url.Values
}

func (f *fakeAPI) serve() *httptest.Server {
	s := httptest.NewServer(f)
	f.t.Cleanup(s.Close)
	return s
}

func (f *fakeAPI) fail(w http.ResponseWriter, code int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": kind, "error": text})
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token {
		http.Error(w, "unauthorised", http.StatusUnauthorized)
		return
	}
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
		f.fail(w, http.StatusBadRequest, "bad_data", "want a POSTed form")
		return
	}
	if f.delay != nil {
		select {
		case <-f.delay:
		case <-r.Context().Done():
		}
	}
	q := r.Form.Get("query")
	f.mu.Lock()
	f.queries = append(f.queries, q)
	f.asked = append(f.asked, r.Form)
	f.mu.Unlock()
	if f.longest > 0 && len(q) > f.longest {
		f.fail(w, http.StatusUnprocessableEntity, "422", fmt.Sprintf("too long query; got %d bytes; mustn't exceed `-search.maxQueryLen=%d` bytes", len(q), f.longest))
		return
	}
	if f.refuse != "" && strings.Contains(q, f.refuse) {
		f.fail(w, http.StatusUnprocessableEntity, "execution", "query processing would load too many samples into memory")
		return
	}
	switch r.URL.Path {
	case "/api/v1/query":
		f.instant(w, q, r.Form.Get("time"))
	case "/api/v1/query_range":
		if f.noRange {
			f.fail(w, http.StatusUnprocessableEntity, "execution", "the query hit limits")
			return
		}
		f.ranged(w, r, q)
	default:
		http.NotFound(w, r)
	}
}

func parseTime(s string) (time.Time, error) {
	f, err := strconv.ParseFloat(s, 64)
	return time.UnixMilli(int64(f * 1000)).UTC(), err
}

func pair(at time.Time, v float64) [2]any {
	return [2]any{float64(at.UnixMilli()) / 1000, strconv.FormatFloat(v, 'g', -1, 64)}
}

func (f *fakeAPI) instant(w http.ResponseWriter, q, at string) {
	t, err := parseTime(at)
	if at == "" {
		t, err = time.Unix(0, 0), nil
	}
	if err != nil {
		f.fail(w, http.StatusBadRequest, "bad_data", "invalid time")
		return
	}
	if q == "vector(1)" {
		f.answer(w, "vector", []any{})
		return
	}
	res, err := f.store.query(q, t)
	if err != nil {
		f.fail(w, http.StatusBadRequest, "bad_data", err.Error())
		return
	}
	seen := map[string]bool{}
	out := []any{}
	for _, x := range res {
		if k := signature(x.labels); seen[k] {
			f.t.Errorf("the union has two values for %s", k)
		} else {
			seen[k] = true
		}
		out = append(out, map[string]any{"metric": x.labels, "value": pair(t, x.v)})
	}
	f.answer(w, "vector", out)
}

func (f *fakeAPI) ranged(w http.ResponseWriter, r *http.Request, q string) {
	start, err1 := parseTime(r.Form.Get("start"))
	end, err2 := parseTime(r.Form.Get("end"))
	step, err3 := strconv.ParseFloat(r.Form.Get("step"), 64)
	if err1 != nil || err2 != nil || err3 != nil || step <= 0 || end.Before(start) || end.Sub(start).Seconds()/step > 120 {
		f.fail(w, http.StatusBadRequest, "bad_data", "bad range: "+r.Form.Encode())
		return
	}
	expr, err := parse(q)
	if err != nil {
		f.fail(w, http.StatusBadRequest, "bad_data", err.Error())
		return
	}
	streams := map[string]map[string]any{}
	for at := start; !at.After(end); at = at.Add(time.Duration(step * float64(time.Second))) {
		for _, x := range f.store.eval(expr, at) {
			k := signature(x.labels)
			if streams[k] == nil {
				streams[k] = map[string]any{"metric": x.labels, "values": []any{}}
			}
			streams[k]["values"] = append(streams[k]["values"].([]any), pair(at, x.v))
		}
	}
	out := []any{}
	for _, s := range streams {
		out = append(out, s)
	}
	f.answer(w, "matrix", out)
}

func (f *fakeAPI) answer(w http.ResponseWriter, kind string, result any) {
	w.Header().Set("Content-Type", "application/json")
	body := map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result}}
	if f.warns {
		body["warnings"] = []string{"No StoreAPIs matched for this query"}
	}
	_ = json.NewEncoder(w).Encode(body)
}
