package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config holds the settings. Without an Endpoint there is no tracing.
type Config struct {
	Endpoint string                      // base URL of the collector, to which /v1/traces is added if it has no path
	Headers  func() (http.Header, error) // of every request; nil: none. Called for each request
	Ratio    float64                     // share of the payloads that are traced
	Version  string
	Logger   *slog.Logger
}

// A Tracer makes spans and exports them. A nil Tracer makes none.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
}

// exportTime bounds the export of one batch, with all of its attempts.
const exportTime = 20 * time.Second

// New returns a tracer, or nil without an endpoint. It sends nothing yet.
func New(ctx context.Context, c Config) (*Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(tracesURL(c.Endpoint)), otlptracehttp.WithHTTPClient(c.client()),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second,
			MaxElapsedTime: exportTime}))
	if err != nil {
		return nil, fmt.Errorf("creating the exporter of traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&reporter{SpanExporter: exporter, log: c.Logger}, sdktrace.WithExportTimeout(exportTime)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.Ratio))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "paramedic"),
			attribute.String("service.version", c.Version))))
	return &Tracer{tracer: provider.Tracer("paramedic"), provider: provider}, nil
}

// Close exports the rest until the context ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Ping sends an export without spans, and returns why the collector does not take it.
func Ping(ctx context.Context, c Config) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, tracesURL(c.Endpoint), http.NoBody)
	if err != nil {
		return errors.New("the endpoint is not a URL")
	}
	req.Header.Set("Content-Type", "application/x-protobuf") // an empty body is an empty message
	resp, err := c.client().Do(req)
	var failed *url.Error
	switch {
	case errors.As(err, &failed):
		return failed.Err
	case err != nil:
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the collector answered %s", resp.Status)
	}
	return nil
}

// tracesURL returns the URL that takes traces.
func tracesURL(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && strings.Trim(u.Path, "/") == "" {
		return u.JoinPath("v1/traces").String()
	}
	return endpoint
}

// client returns a client that sets the headers. It follows no redirect, because the headers are
// for the collector only.
func (c Config) client() *http.Client {
	return &http.Client{Transport: headers{c.Headers, http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects to another address; the bot follows no redirects")
		}}
}

// headers adds headers to requests, and drops the bodies of answers: a collector may repeat the
// headers there, and the exporter would print them.
type headers struct {
	of   func() (http.Header, error)
	next http.RoundTripper
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.of != nil {
		extra, err := h.of()
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		for name, values := range extra {
			r.Header[name] = values
		}
	}
	resp, err := h.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4096) // so that the connection can be used again
	resp.Body.Close()
	resp.Body = http.NoBody
	return resp, nil
}

// A reporter logs when exports begin to fail, and when they work again. It is silent in between: a
// collector that is down must not fill the log.
type reporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	down atomic.Bool
}

// ExportSpans exports, and drops what the collector does not take.
func (r *reporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !r.down.Swap(true):
		r.log.WarnContext(ctx, "the collector takes no traces, and the bot drops them (tracing.endpoint)", "err", err)
	case err == nil && r.down.Swap(false):
		r.log.InfoContext(ctx, "the collector takes traces again")
	}
	return nil
}

// context is the W3C format in which inputs and incidents keep a trace.
var format propagation.TraceContext

const traceparent = "traceparent"

// encoded returns the stored form of the context's span, or "" if it is not sampled.
func encoded(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	format.Inject(ctx, carrier)
	return carrier[traceparent]
}

// within returns a context inside a stored trace. A text that is no trace changes nothing.
func within(ctx context.Context, stored string) context.Context {
	return format.Extract(ctx, propagation.MapCarrier{traceparent: stored})
}
