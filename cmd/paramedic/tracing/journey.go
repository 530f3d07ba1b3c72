package tracing

import (
	"context"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"paramedic/state"
	"paramedic/state/keeper"
	"paramedic/state/outbox"
)

// The attributes of spans.
const (
	keyAlerts     = attribute.Key("paramedic.alerts")
	keyAlertname  = attribute.Key("paramedic.alertname")
	keyIncident   = attribute.Key("paramedic.incident")
	keyCluster    = attribute.Key("paramedic.cluster")
	keyNamespace  = attribute.Key("paramedic.namespace")
	keyCause      = attribute.Key("paramedic.cause")
	keyConfidence = attribute.Key("paramedic.confidence")
	keyAttempt    = attribute.Key("paramedic.attempt")
	keyOutcome    = attribute.Key("paramedic.outcome")
	keyAction     = attribute.Key("paramedic.action")
	keyState      = attribute.Key("paramedic.action_state")
	keyStatus     = attribute.Key("http.response.status_code")
)

// webhook is the path of the requests that begin a trace.
const webhook = "/webhook/alertmanager"

// Handler begins a trace with each payload of Alertmanager.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != webhook {
			next.ServeHTTP(w, r)
			return
		}
		ctx, span := t.tracer.Start(r.Context(), "POST "+webhook, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		answer := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(answer, r.WithContext(ctx))
		span.SetAttributes(keyStatus.Int(answer.code))
		if answer.code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// A status keeps the status code of an answer.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Log makes a span of each append within a trace, and stores the trace with the inputs.
func (t *Tracer) Log(next state.Log) state.Log {
	if t == nil {
		return next
	}
	return log{t, next}
}

type log struct {
	*Tracer
	next state.Log
}

// Append implements state.Log.
func (l log) Append(ctx context.Context, inputs ...state.Input) error {
	parent := encoded(ctx)
	if parent == "" {
		return l.next.Append(ctx, inputs...)
	}
	alerts := 0
	inputs = slices.Clone(inputs)
	for i := range inputs {
		inputs[i].Trace = parent
		if batch := inputs[i].Alerts; batch != nil {
			alerts += len(batch.Alerts)
		}
	}
	ctx, span := l.tracer.Start(ctx, "append", trace.WithAttributes(keyAlerts.Int(alerts)))
	defer span.End()
	err := l.next.Append(ctx, inputs...)
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	return err
}

// Applied returns a function that makes spans of applied inputs, for keeper.Config.
func (t *Tracer) Applied(incident func(state.IncidentID) (state.Incident, bool)) func([]keeper.Applied) {
	if t == nil {
		return nil
	}
	return func(applied []keeper.Applied) {
		for _, a := range applied {
			t.applied(a, incident)
		}
	}
}

func (t *Tracer) applied(a keeper.Applied, incident func(state.IncidentID) (state.Incident, bool)) {
	name := "apply"
	var attributes []attribute.KeyValue
	switch {
	case a.Alerts != nil:
		name = "triage"
		attributes = append(attributes, keyAlerts.Int(len(a.Alerts.Alerts)), keyAlertname.StringSlice(alertnames(a.Alerts)))
	case a.Evidence != nil:
		name = "verdict"
	case a.Action != nil:
		attributes = append(attributes, keyAction.String(string(a.Action.Action.ID)), keyState.String(string(a.Action.Action.State)))
	}
	ctx := within(context.Background(), a.Trace)
	here := trace.SpanContextFromContext(ctx).TraceID()
	var links []trace.Link
	for i, id := range a.Incidents {
		in, ok := incident(id)
		if !ok {
			continue
		}
		if i == 0 {
			attributes = append(attributes, about(&in)...)
		}
		if name == "verdict" {
			attributes = append(attributes, keyCause.String(string(in.Cause())), keyConfidence.Float64(in.Diagnosis.Confidence))
		}
		if of := trace.SpanContextFromContext(within(context.Background(), in.Trace)); of.IsValid() && of.TraceID() != here {
			links = append(links, trace.Link{SpanContext: of, Attributes: []attribute.KeyValue{keyIncident.String(string(id))}})
		}
	}
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(a.Began), trace.WithAttributes(attributes...), trace.WithLinks(links...))
	span.End(trace.WithTimestamp(a.Committed))
}

// mostNames bounds the alert rules that a span names.
const mostNames = 10

// alertnames returns the rules of the alerts, each once.
func alertnames(batch *state.AlertBatch) []string {
	var names []string
	for i := range batch.Alerts {
		if name := batch.Alerts[i].Name(); len(names) < mostNames && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// about returns the attributes of an incident.
func about(in *state.Incident) []attribute.KeyValue {
	out := []attribute.KeyValue{keyIncident.String(string(in.ID)), keyCluster.String(in.Cluster)}
	if in.Scope.Namespace != "" {
		out = append(out, keyNamespace.String(in.Scope.Namespace))
	}
	return out
}

// Delivery makes a span of each delivery of an effect, in the trace of its incident. The inputs
// that result from it continue the trace.
func (t *Tracer) Delivery(incident func(state.IncidentID) (state.Incident, bool), next outbox.Handler) outbox.Handler {
	if t == nil {
		return next
	}
	return delivery{t, incident, next}
}

type delivery struct {
	*Tracer
	incident func(state.IncidentID) (state.Incident, bool)
	next     outbox.Handler
}

// Deliver implements outbox.Handler.
func (d delivery) Deliver(ctx context.Context, e state.Effect) outbox.Result {
	in, ok := d.incident(e.Incident)
	if !ok || in.Trace == "" {
		return d.next.Deliver(ctx, e)
	}
	attributes := append(about(&in), keyAttempt.Int(e.Attempts+1))
	if e.Action != "" {
		attributes = append(attributes, keyAction.String(string(e.Action)))
	}
	ctx, span := d.tracer.Start(within(ctx, in.Trace), spanOf(e), trace.WithAttributes(attributes...))
	defer span.End()
	res := d.next.Deliver(ctx, e)
	outcome := "retry"
	switch {
	case res.Outcome.Done && res.Outcome.Error == "":
		outcome = "done"
	case res.Outcome.Done:
		outcome = "failed"
	}
	span.SetAttributes(keyOutcome.String(outcome))
	if res.Outcome.Error != "" {
		span.SetStatus(codes.Error, "")
	}
	parent := encoded(ctx)
	for i := range res.Inputs {
		res.Inputs[i].Trace = parent
	}
	return res
}

// spanOf returns the name of an effect's span.
func spanOf(e state.Effect) string {
	switch e.Kind {
	case state.EffectPrepare:
		return "prepare evidence"
	case state.EffectEnrich:
		return "gather evidence"
	case state.EffectNotify:
		return "deliver " + string(e.Channel)
	case state.EffectFlood:
		return "deliver summary"
	case state.EffectNote:
		return "write note"
	case state.EffectPlan:
		return "plan first aid"
	case state.EffectRun:
		return "first aid"
	}
	return string(e.Kind)
}
