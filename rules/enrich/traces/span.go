package traces

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Names of spans and attributes that engines write. The package comment lists their sources.
const (
	nameRequest  = "llm_request"             // vLLM
	nameWaiting  = "prefill_waiting"         // SGLang
	namePrefill  = "prefill_forward"         // SGLang
	nameRouting  = "kv_router.select_worker" // Dynamo
	keyModule    = "module"                  // SGLang
	moduleSGLang = "sglang::request"         // the value of keyModule on a request's root span
	keyModel     = "gen_ai.response.model"   // vLLM V0, SGLang
	keyPrompt    = "gen_ai.usage.prompt_tokens"
	keyOutput    = "gen_ai.usage.completion_tokens"
	keyCached    = "gen_ai.usage.cached_tokens" // SGLang
	keyQueue     = "gen_ai.latency.time_in_queue"
	keyPrefill   = "gen_ai.latency.time_in_model_prefill"
	keyDecode    = "gen_ai.latency.time_in_model_decode"
	keyFirst     = "gen_ai.latency.time_to_first_token"
	keyWhole     = "gen_ai.latency.e2e"
)

// Resource attributes that name the origin of a span. OpenTelemetry's SDKs and the collector's
// k8sattributes processor set them.
const (
	keyService     = "service.name"
	keyNamespace   = "k8s.namespace.name"
	keyPod         = "k8s.pod.name"
	keyDeployment  = "k8s.deployment.name"
	keyStatefulSet = "k8s.statefulset.name"
)

var (
	spanKeys = []string{keyModule, keyModel, keyPrompt, keyOutput, keyCached, keyQueue, keyPrefill, keyDecode,
		keyFirst, keyWhole}
	resourceKeys = []string{keyService, keyNamespace, keyPod, keyDeployment, keyStatefulSet}
)

// A span holds one span of either store. One map holds the attributes of the span and of its
// resource, because no name occurs in both.
type span struct {
	trace    string
	id, root string // Tempo only: root is the service where the trace begins
	name     string
	start    time.Time
	duration time.Duration
	values   map[string]value
}

// number returns an attribute's value, or NaN if the span lacks it or if it is not a number.
func (s span) number(key string) float64 {
	if v, ok := s.values[key]; ok {
		return v.number
	}
	return math.NaN()
}

func (s span) text(key string) string { return s.values[key].text }

// An attribute is a key and a value in OTLP's JSON, which both stores use.
type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// A value holds an attribute's value: a text or a number.
type value struct {
	text   string
	number float64
}

// UnmarshalJSON reads an OTLP value. OTLP writes integers as strings, but some writers use numbers.
func (v *value) UnmarshalJSON(b []byte) error {
	var raw struct {
		String *string     `json:"stringValue"`
		Int    *lenientInt `json:"intValue"`
		Double *float64    `json:"doubleValue"`
	}
	*v = value{number: math.NaN()}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil //nolint:nilerr // an unknown form of one value must not lose the other spans
	}
	switch {
	case raw.String != nil:
		v.text = *raw.String
	case raw.Int != nil:
		v.number = float64(*raw.Int)
	case raw.Double != nil:
		v.number = *raw.Double
	}
	return nil
}

// A lenientInt is an integer that may be written as a string.
type lenientInt int64

// UnmarshalJSON reads a number, or a number in a string.
func (l *lenientInt) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	*l = lenientInt(n)
	return err
}

func (l lenientInt) time() time.Time { return time.Unix(0, int64(l)).UTC() }

// setAttributes adds attributes to a span's values.
func setAttributes(into map[string]value, list []attribute) {
	for _, a := range list {
		into[a.Key] = a.Value
	}
}
