// Package tracingtest is an OpenTelemetry collector for tests. It decodes what it gets, and reports
// everything that the OTLP specification forbids.
package tracingtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A Span is a span as the collector got it.
type Span struct {
	Name, Trace, ID, Parent string
	Start, End              time.Time
	Server, Failed          bool
	Attributes              map[string]string
	Links                   []string // the traces that it links to
}

// A Collector keeps the spans that it gets. It is safe for concurrent use.
type Collector struct {
	server *httptest.Server
	done   chan struct{}

	mu       sync.Mutex
	spans    []Span
	headers  []http.Header
	failures []string
	hangs    bool
	code     int
	tried    int
}

// New starts a collector.
func New() *Collector {
	c := &Collector{done: make(chan struct{})}
	c.server = httptest.NewServer(http.HandlerFunc(c.serve))
	return c
}

// Close ends the collector, and the requests that hang.
func (c *Collector) Close() {
	close(c.done)
	c.server.Close()
}

// URL returns the base URL of the collector.
func (c *Collector) URL() string { return c.server.URL }

// Hang makes every request from now on wait until Close.
func (c *Collector) Hang() { c.set(func() { c.hangs = true }) }

// Refuse makes the collector answer with a status code; 0: it accepts again.
func (c *Collector) Refuse(code int) { c.set(func() { c.code = code }) }

func (c *Collector) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// Spans returns the spans so far, in the order of their start.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(c.spans)
	slices.SortStableFunc(out, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return out
}

// Tried returns the number of requests, also of those that hung or were refused.
func (c *Collector) Tried() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tried
}

// Headers returns the headers of each request.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// Failures returns what the specification forbids and was sent all the same.
func (c *Collector) Failures() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.failures)
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	c.mu.Lock()
	c.tried++
	c.headers = append(c.headers, r.Header.Clone())
	hangs, code := c.hangs, c.code
	c.mu.Unlock()
	switch {
	case hangs:
		<-c.done
		return
	case code != 0:
		w.WriteHeader(code)
		return
	}
	if err == nil {
		err = c.take(r, raw)
	}
	if err != nil {
		c.set(func() { c.failures = append(c.failures, err.Error()) })
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

// take decodes a request and keeps its spans.
func (c *Collector) take(r *http.Request, raw []byte) error {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("%s %s with the content type %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return err
		}
		if raw, err = io.ReadAll(zip); err != nil {
			return err
		}
	}
	var req collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &req); err != nil {
		return err
	}
	if len(req.ProtoReflect().GetUnknown()) > 0 {
		return fmt.Errorf("the request has unknown fields")
	}
	for _, resource := range req.ResourceSpans {
		service := attributes(resource.GetResource().GetAttributes())
		if service["service.name"] != "paramedic" || service["service.version"] == "" {
			return fmt.Errorf("the resource is %v", service)
		}
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				span, err := spanOf(s)
				if err != nil {
					return err
				}
				c.set(func() { c.spans = append(c.spans, span) })
			}
		}
	}
	return nil
}

func spanOf(s *otlp.Span) (Span, error) {
	out := Span{Name: s.Name, Trace: fmt.Sprintf("%x", s.TraceId), ID: fmt.Sprintf("%x", s.SpanId),
		Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)), //nolint:gosec // of this century
		Server: s.Kind == otlp.Span_SPAN_KIND_SERVER, Failed: s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR,
		Attributes: attributes(s.Attributes)}
	if len(s.ParentSpanId) > 0 {
		out.Parent = fmt.Sprintf("%x", s.ParentSpanId)
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, fmt.Sprintf("%x", l.TraceId))
	}
	switch {
	case s.Name == "" || len(s.TraceId) != 16 || len(s.SpanId) != 8 || len(s.ParentSpanId) != 0 && len(s.ParentSpanId) != 8 ||
		strings.Trim(out.Trace, "0") == "" || strings.Trim(out.ID, "0") == "":
		return out, fmt.Errorf("the span %q has the trace %q, the ID %q and the parent %q", s.Name, out.Trace, out.ID, out.Parent)
	case s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano:
		return out, fmt.Errorf("the span %q begins at %s and ends at %s", s.Name, out.Start, out.End)
	}
	return out, nil
}

// attributes returns the attributes as texts.
func attributes(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.Key] = text(a.Value)
	}
	return out
}

func text(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, e := range v.ArrayValue.Values {
			all = append(all, text(e))
		}
		return strings.Join(all, ",")
	}
	return ""
}
