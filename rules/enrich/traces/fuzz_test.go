package traces

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/traces/tracestest"
	"paramedic/rules/signals"
)

// answering is a transport that returns the same answer to every search.
type answering []byte

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte(a)
	if strings.HasSuffix(r.URL.Path, "/services") {
		body = []byte(`{"services":["vllm-llama"]}`)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// FuzzAnswers checks that any answer of a store results in samples that can be stored and shown:
// finite numbers and short texts of one line.
func FuzzAnswers(f *testing.F) {
	store := &tracestest.Store{}
	r := requests(1, tracestest.Times{Queue: s, Prefill: s, Decode: s}, map[string]any{"service.name": "vllm-llama"})[0]
	store.Add(tracestest.VLLM(r)...)
	store.Add(tracestest.SGLang(r, "llama-70b", 250, 1)...)
	store.Add(tracestest.Routed(r, s))
	var seen recorder
	for _, c := range stores(f, store) {
		switch st := c.store.(type) {
		case tempo:
			st.http.Transport = &seen
		case jaeger:
			st.http.Transport = &seen
		}
		if _, err := c.store.find(f.Context(), llama, now.Add(-Window), now); err != nil {
			f.Fatal(err)
		}
	}
	for _, body := range seen {
		for _, form := range []*regexp.Regexp{regexp.MustCompile(`(?s)"traces":\[(.*?)\]}\s*$`), regexp.MustCompile(`(?s)"resourceSpans":\[(.*)\]}}`)} {
			if m := form.FindSubmatch(body); m != nil {
				f.Add(m[1])
				f.Add(regexp.MustCompile(`"doubleValue":[0-9.]+`).ReplaceAll(m[1], []byte(`"doubleValue":1.7e308`)))
				f.Add(regexp.MustCompile(`"intValue":"[0-9]+"`).ReplaceAll(m[1], []byte(`"intValue":"9223372036854775807"`)))
			}
		}
	}
	builtin, err := signals.LoadSignals()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, one []byte) {
		many := bytes.TrimSuffix(bytes.Repeat(append(bytes.Clone(one), ','), MinRequests), []byte(","))
		body := fmt.Appendf(nil, `{"traces":[%s],"result":{"resourceSpans":[%s]}}`, many, many)
		for _, c := range []Config{{TempoURL: "http://tempo"}, {JaegerURL: "http://jaeger"}} {
			c.Transport = answering(body)
			client, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			got := client.Read(t.Context(), enrich.Query{Cluster: "prod", Scope: llama, Onset: now, Now: now, Signals: builtin})
			for _, s := range got.Samples {
				if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || s.Value < 0 || len(s.Text) > 200 ||
					strings.ContainsAny(s.Text, "\n\r\x00") {
					t.Errorf("%s is %v, %q", s.Signal, s.Value, s.Text)
				}
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		}
	})
}

// recorder keeps the bodies of all answers.
type recorder [][]byte

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	*r = append(*r, body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}
