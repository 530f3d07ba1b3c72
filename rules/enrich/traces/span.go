package traces

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// The names of spans and attributes that engines write, as the package's comment says where.
const (
	nameRequest  = "llm_request"             // vLLM
	nameWaiting  = "prefill_waiting"         // SGLang
	namePrefill  = "prefill_forward"         // SGLang
	nameRouting  = "kv_router.select_worker" // Dynamo
	keyModule    = "module"                  // SGLang
	moduleSGLang = "sglang::request"         // its value on a request's root
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

// The resource attributes that say where a span is from: OpenTelemetry's, as its SDKs and the
// collector's k8sattributes processor set them.
const (
	keyService     = "service.name"
	keyNamespace   = "k8s.namespace.name"
	keyPod         = "k8s.pod.name"
	keyDeployment  = "k8s.deployment.name"
	keyStatefulSet = "k8s.statefulset.name"
)

var (
	spanKeys     = []string{keyModule, keyModel, keyPrompt, keyOutput, keyCached, keyQueue, keyPrefill, keyDecode, keyFirst, keyWhole}
	resourceKeys = []string{keyService, keyNamespace, keyPod, keyDeployment, keyStatefulSet}
)

// A span is what is known of one span, whichever store it is from. Its attributes and its
// resource's are in one map: no name is in both.
type span struct {
	trace    string
	id, root string // Tempo only: root is the service that the trace begins in
	name     string
	start    time.Time
	duration time.Duration
	values   map[string]value
}

// number is an attribute's value; NaN where the span lacks it, or where it is no number.
func (s span) number(key string) float64 {
	if v, ok := s.values[key]; ok {
		return v.number
	}
	return math.NaN()
}

func (s span) text(key string) string { return s.values[key].text }

// An attribute is a key and its value as OTLP's JSON writes them, which both stores speak.
type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// A value is that of an attribute: a text or a number.
type value struct {
	text   string
	number float64
}

// UnmarshalJSON reads an OTLP value. Its integers are strings, and their writers not always strict
// about it.
func (v *value) UnmarshalJSON(b []byte) error {
	var raw struct {
		String *string  `json:"stringValue"`
		Int    *loose   `json:"intValue"`
		Double *float64 `json:"doubleValue"`
	}
	*v = value{number: math.NaN()}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil //nolint:nilerr // one value of a form that nobody needs must not take the other spans with it
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

// loose is an integer that may be written as a string.
type loose int64

// UnmarshalJSON reads a number or a number in a string.
func (l *loose) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	*l = loose(n)
	return err
}

func (l loose) time() time.Time { return time.Unix(0, int64(l)).UTC() }

// put adds attributes to a span's values.
func put(into map[string]value, list []attribute) {
	for _, a := range list {
		into[a.Key] = a.Value
	}
}
