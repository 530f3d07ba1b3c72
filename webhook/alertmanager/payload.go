package alertmanager

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"github.com/prometheus/alertmanager/template"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/httpio"
)

// payload is version 4 of Alertmanager's webhook message, as 0.25 to 0.34 send it: the data of its
// templates in an envelope. The group's status and common labels are not used. They add nothing to
// the alerts, and are wrong if alerts were truncated.
type payload struct {
	template.Data
	Version         json.RawMessage `json:"version"`
	GroupKey        string          `json:"groupKey"`
	TruncatedAlerts uint64          `json:"truncatedAlerts"`
	Alerts          []payloadAlert  `json:"alerts"`
}

// payloadAlert keeps its times as text, so that an invalid time costs only its own alert.
type payloadAlert struct {
	template.Alert
	StartsAt string `json:"startsAt"`
	EndsAt   string `json:"endsAt"`

	malformed error // the decoding error of this alert
}

// A Payload holds the inputs that a webhook's message makes.
type Payload struct {
	Receiver string
	Total    int // alerts in the payload, including those set aside
	Inputs   []state.Input
	Aside    []SetAside // the alerts that cannot be taken
}

// Decode reads a version 4 payload and returns its alerts as inputs of at most [state.MaxBatch]
// alerts. The alerts are sorted, so that the two members of a pair make the same inputs with the
// same IDs. Decode sets an alert aside if it cannot be taken. It refuses the whole payload only if
// it is of another form or version, or has no alert.
//
// With several clusters, the label cluster names an alert's cluster. An alert without the label
// belongs to the first. A cluster that is not configured keeps its name: its alerts get no evidence
// and no first aid, and are not counted as another cluster's. A single cluster takes every alert,
// also with another name in the label.
func Decode(body []byte, clusters []string, now time.Time) (Payload, error) {
	p := payloads.Get().(*payload) //nolint:forcetypeassert // of New
	defer p.free()
	if err := p.decode(body); err != nil {
		return Payload{}, httpio.Fail(http.StatusBadRequest, "the body is not an Alertmanager webhook payload: %s",
			inWords(err))
	}
	switch version := string(p.Version); {
	case version == "" || version == "null":
		return Payload{}, httpio.Fail(http.StatusBadRequest, "the payload has no version: "+
			`Paramedic reads Alertmanager's webhook payload version "4"; remove the receiver's custom payload`)
	case version != `"4"`:
		return Payload{}, httpio.Fail(http.StatusBadRequest, "payload version %s is not supported: "+
			`Paramedic reads Alertmanager's webhook payload version "4"`, httpio.Cut(version, 32))
	case len(p.Alerts) == 0:
		return Payload{}, httpio.Fail(http.StatusBadRequest, "the payload has no alerts")
	}
	out := Payload{Receiver: httpio.Cut(p.Receiver, 1024), Total: len(p.Alerts)}
	byCluster := map[string][]state.Alert{}
	for i := range p.Alerts {
		a, err := p.Alerts[i].alert()
		var bad *setAsideError
		if errors.As(err, &bad) {
			out.Aside = append(out.Aside,
				SetAside{Reason: bad.reason, Text: bad.text, Alert: excerpt(p.Alerts[i].Labels), Count: 1})
			continue
		}
		cluster := clusters[0]
		if name := a.Labels["cluster"]; len(clusters) > 1 && name != "" {
			cluster = httpio.Cut(name, maxClusterName)
		}
		if len(byCluster) == 0 { // most payloads are of one cluster
			byCluster[cluster] = make([]state.Alert, 0, len(p.Alerts)-i)
		}
		byCluster[cluster] = append(byCluster[cluster], a)
	}
	if p.TruncatedAlerts > 0 {
		out.Aside = append(out.Aside, SetAside{Reason: ReasonTruncated, Count: p.TruncatedAlerts,
			Text: "Alertmanager left alerts out of a payload: set max_alerts of the receiver to 0"})
	}
	out.Inputs = p.split(byCluster, now)
	return out, nil
}

// payloads holds room for the alerts of payloads. An empty slice would grow, and be copied, at each
// power of two.
var payloads = sync.Pool{New: func() any { return new(payload) }}

// mostKept bounds the alerts for which a payload keeps room. All of it is cleared after each
// payload, also after one of a single alert.
const mostKept = 128

// free gives the payload's room back. What Decode returned has no part of it.
func (p *payload) free() {
	alerts := p.Alerts
	if cap(alerts) > mostKept {
		alerts = nil
	}
	clear(alerts[:cap(alerts)]) // json merges into what is there
	*p = payload{Alerts: alerts[:0]}
	payloads.Put(p)
}

// CountAlerts counts a payload's alerts, valid or not, before memory is spent on each. It returns
// zero if the body has too few commas for more than most alerts.
func CountAlerts(body []byte, most int) (receiver string, n int) {
	if bytes.Count(body, []byte(",")) < most {
		return "", 0
	}
	var p struct {
		Receiver string     `json:"receiver"`
		Alerts   []struct{} `json:"alerts"`
	}
	_ = json.Unmarshal(body, &p) // Decode reports what is wrong
	return p.Receiver, len(p.Alerts)
}

// decode reads the payload. An alert of another form is left empty, with its error.
func (p *payload) decode(body []byte) error {
	err := httpio.DecodeOne(body, p)
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	var loose struct {
		payload
		Alerts []json.RawMessage `json:"alerts"`
	}
	if err := httpio.DecodeOne(body, &loose); err != nil && !unused(err) {
		return err
	}
	*p = loose.payload
	p.Alerts = make([]payloadAlert, len(loose.Alerts))
	for i, raw := range loose.Alerts {
		if err := json.Unmarshal(raw, &p.Alerts[i]); err != nil {
			p.Alerts[i].malformed = inWords(err)
		}
	}
	return nil
}

// unused reports whether a decoding error concerns a field that is not used, so that it costs no
// alert.
func unused(err error) bool {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return false
	}
	field, _, _ := strings.Cut(kind.Field, ".")
	return slices.Contains([]string{"status", "notification_reason", "groupLabels", "commonLabels",
		"commonAnnotations", "routeLabels"}, field)
}

// boundedLabels returns the group labels for templates, within bounds. They have no other use.
func boundedLabels(labels template.KV) map[string]string {
	out := map[string]string{}
	for _, l := range labels.SortedPairs() {
		if len(out) < maxLabels/4 && len(l.Name) <= maxGroupLabel {
			out[text.Clean(l.Name)] = httpio.Cut(text.Lines(l.Value), maxGroupLabel)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// maxGroupLabel bounds the name, and the value, of a group label, in bytes.
const maxGroupLabel = 1024

// split makes inputs of the alerts, cluster by cluster. It sorts alerts by start and fingerprint,
// because senders may order them differently.
func (p *payload) split(byCluster map[string][]state.Alert, now time.Time) []state.Input {
	var inputs []state.Input
	group := boundedLabels(p.GroupLabels)
	for _, cluster := range slices.Sorted(maps.Keys(byCluster)) {
		alerts := byCluster[cluster]
		slices.SortStableFunc(alerts, func(a, b state.Alert) int {
			if d := a.StartsAt.Compare(b.StartsAt); d != 0 {
				return d
			}
			return strings.Compare(string(a.Fingerprint), string(b.Fingerprint))
		})
		for len(alerts) > 0 {
			n, size := 0, 0
			for n < len(alerts) && n < state.MaxBatch {
				if size += sizeBound(&alerts[n]); size > maxPart && n > 0 {
					break
				}
				n++
			}
			batch := &state.AlertBatch{
				Receiver: httpio.Cut(p.Receiver, 1024), GroupKey: httpio.Cut(p.GroupKey, 4096),
				ExternalURL: httpio.Cut(p.ExternalURL, 2048),
				Truncated:   p.TruncatedAlerts, Alerts: alerts[:n:n], GroupLabels: group,
			}
			inputs = append(inputs, state.Input{ID: batchID(cluster, batch), At: now, Cluster: cluster, Alerts: batch})
			alerts = alerts[n:]
		}
	}
	return inputs
}

// batchID returns the same ID for the same alerts, whichever member of a pair sent them: it leaves
// out the sender's URL.
func batchID(cluster string, b *state.AlertBatch) string {
	buffer := parts.Get().(*state.Parts) //nolint:forcetypeassert // of New
	defer parts.Put(buffer)
	p := (*buffer)[:0].With("alerts", cluster, b.Receiver, b.GroupKey, strconv.FormatUint(b.Truncated, 10))
	var labels, annotations []string
	for i := range b.Alerts {
		a := &b.Alerts[i]
		labels, annotations = sortedNames(a.Labels, labels), sortedNames(a.Annotations, annotations)
		p = p.With(string(a.Fingerprint), string(a.Status)).WithTime(a.StartsAt).WithTime(a.EndsAt)
		p = withTexts(p, a.Labels, labels)
		p = withTexts(p, a.Annotations, annotations)
	}
	*buffer = p
	return p.Hash()
}

// parts holds memory for the parts of an ID, which have the size of a payload.
var parts = sync.Pool{New: func() any { return new(state.Parts) }}

// sortedNames returns the sorted names of the texts. Those of the alert before are mostly the same.
func sortedNames(texts map[string]string, before []string) []string {
	missing := func(name string) bool { _, ok := texts[name]; return !ok }
	if len(before) == len(texts) && !slices.ContainsFunc(before, missing) {
		return before
	}
	return slices.Sorted(maps.Keys(texts))
}

// withTexts adds the number of texts, their names, and the texts in the order of the names.
func withTexts(p state.Parts, texts map[string]string, names []string) state.Parts {
	p = p.With(strconv.Itoa(len(names))).With(names...)
	for _, name := range names {
		p = p.With(texts[name])
	}
	return p
}

// sizeBound returns an upper bound of an alert's size as JSON, where <, > and & take six bytes.
func sizeBound(a *state.Alert) int {
	n := 256 + jsonSize(a.GeneratorURL)
	for name, value := range a.Labels {
		n += jsonSize(name) + jsonSize(value) + 6
	}
	for name, value := range a.Annotations {
		n += jsonSize(name) + jsonSize(value) + 6
	}
	return n
}

func jsonSize(text string) int {
	n := len(text)
	for i := range len(text) {
		switch text[i] {
		case '<', '>', '&':
			n += 5
		case '"', '\\', '\n', '\t', '\r':
			n++
		case 0xe2: // U+2028 and U+2029 are escaped too
			n += 3
		}
	}
	return n
}

// maxFieldPath bounds the path of a field in an error. It can have a label's name, of any length.
const maxFieldPath = 80

// inWords returns a decoding error without the names of Go's types, which mean nothing to the
// sender.
func inWords(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	want := "an object"
	switch kind := wrong.Type.Kind(); {
	case kind == reflect.String:
		want = "a string"
	case kind == reflect.Bool:
		want = "true or false"
	case kind == reflect.Slice:
		want = "an array"
	case kind >= reflect.Int && kind <= reflect.Float64:
		want = "a number"
	}
	value, _, _ := strings.Cut(wrong.Value, " ") // "number -1"
	if value == "number" && want == "a number" {
		value, want = wrong.Value, "a number in range"
	}
	return fmt.Errorf("%s must be %s, not %s", cmp.Or(text.Line(wrong.Field, maxFieldPath), "the value"), want, value)
}
