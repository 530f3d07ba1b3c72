package traces

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

// jaeger reads Jaeger's query service by its API v3: GET /api/v3/services and GET /api/v3/traces
// (cmd/query/app/apiv3 in 1.53 to 1.76, cmd/jaeger/…/apiv3 in 2.x). The older GET /api/traces is
// gone after 2.20. All of these versions accept the parameter names used here.
type jaeger struct{ caller }

// usualServices are the service names of engines that were given none: SGLang's default, the one in
// vLLM's documentation, and the default of OpenTelemetry's SDK.
var usualServices = []string{"sglang", "vllm-server", "unknown_service"}

// find lists the services, because Jaeger finds traces by service. Then it reads the traces of the
// service that fits best.
func (j jaeger) find(ctx context.Context, scope state.Scope, from, to time.Time) ([]span, error) {
	services, err := j.services(ctx)
	if err != nil {
		return nil, err
	}
	service := serviceOf(services, scope)
	if service == "" {
		want := append([]string{}, usualServices...)
		if scope.Pool != "" {
			want = slices.Insert(want, 0, scope.Pool)
		}
		return nil, fmt.Errorf("%s has no service named %s: "+
			"set OTEL_SERVICE_NAME of the engines to their pool's name", j.display, strings.Join(want, " or "))
	}
	return j.traces(ctx, service, from, to)
}

// serviceOf returns the service of a scope, or "" if none fits.
func serviceOf(services []string, scope state.Scope) string {
	for _, want := range append([]string{scope.Pool, scope.Model}, usualServices...) {
		if want != "" && slices.Contains(services, want) {
			return want
		}
	}
	return ""
}

func (j jaeger) ping(ctx context.Context, _ time.Time) error {
	_, err := j.services(ctx)
	return err
}

func (j jaeger) services(ctx context.Context) ([]string, error) {
	var a struct {
		Services []string `json:"services"`
	}
	err := j.get(ctx, "api/v3/services", nil, &a)
	return a.Services, err
}

// otlp is an answer with traces, in OTLP's JSON form.
type otlp struct {
	Result struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []attribute `json:"attributes"`
			} `json:"resource"`
			ScopeSpans []struct {
				Spans []struct {
					TraceID    string      `json:"traceId"`
					Name       string      `json:"name"`
					Start      lenientInt  `json:"startTimeUnixNano"`
					End        lenientInt  `json:"endTimeUnixNano"`
					Attributes []attribute `json:"attributes"`
				} `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	} `json:"result"`
}

func (j jaeger) traces(ctx context.Context, service string, from, to time.Time) ([]span, error) {
	var a otlp
	err := j.get(ctx, "api/v3/traces", url.Values{
		"query.service_name": {service}, "query.num_traces": {strconv.Itoa(maxTraces)},
		"query.start_time_min": {from.UTC().Format(time.RFC3339Nano)},
		"query.start_time_max": {to.UTC().Format(time.RFC3339Nano)},
	}, &a)
	if none := new(statusError); errors.As(err, &none) && none.code == http.StatusNotFound {
		return nil, nil // Jaeger answers 404 if it has no trace
	}
	if err != nil {
		return nil, err
	}
	var out []span
	for _, r := range a.Result.ResourceSpans {
		for _, sc := range r.ScopeSpans {
			for _, s := range sc.Spans {
				sp := span{trace: s.TraceID, name: s.Name, start: s.Start.time(),
					duration: time.Duration(s.End - s.Start), values: map[string]value{}}
				setAttributes(sp.values, r.Resource.Attributes)
				setAttributes(sp.values, s.Attributes)
				out = append(out, sp)
			}
		}
	}
	return out, nil
}
