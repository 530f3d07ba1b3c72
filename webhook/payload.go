package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"paramedic/state"
)

// payload is Alertmanager's webhook message, version 4, as 0.25 to 0.34 send it. Only what is used is decoded: newer versions add
// fields (notification_reason, routeLabels), and the group's status and common labels say nothing that the alerts don't, and are
// wrong when alerts were truncated.
type payload struct {
	Version         json.RawMessage `json:"version"`
	Receiver        string          `json:"receiver"`
	GroupKey        string          `json:"groupKey"`
	ExternalURL     string          `json:"externalURL"`
	TruncatedAlerts uint64          `json:"truncatedAlerts"`
	Alerts          []payloadAlert  `json:"alerts"`
}

// payloadAlert keeps its times as text, so that an error can say which alert it is about.
type payloadAlert struct {
	Status       state.AlertStatus `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     string            `json:"startsAt"`
	EndsAt       string            `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

// What one alert may weigh. Labels are an alert's identity, so one that goes beyond is refused; annotations and URLs are for people
// and are cut.
const (
	maxLabels          = 128
	maxLabelBytes      = 16 << 10
	maxAnnotation      = 4 << 10
	maxAnnotationBytes = 32 << 10
	maxURL             = 8 << 10
	maxFingerprint     = 64
	maxClusterName     = 253
	// maxPart is the most that the alerts of one input may weigh as JSON: an external NATS server takes messages of 1 MiB by default.
	maxPart = 768 << 10
)

// DecodeAlertmanager reads a version 4 payload and gives its alerts as inputs, at most [state.MaxBatch] alerts each, sorted so that
// the two members of an HA pair give the same inputs with the same IDs. Where there are several clusters, the label cluster says which
// an alert is of, and an alert without it is of the first. A cluster that nobody configured keeps its name: there is no evidence and no
// first aid for it, but neither do its alerts pass for another's. A single cluster takes every alert, whatever it calls itself.
func DecodeAlertmanager(body []byte, clusters []string, now time.Time) ([]state.Input, error) {
	var p payload
	if err := decodeOne(body, &p, false); err != nil {
		return nil, fail(http.StatusBadRequest, "the body is not an Alertmanager webhook payload: %s", err)
	}
	switch version := string(p.Version); {
	case version == "" || version == "null":
		return nil, fail(http.StatusBadRequest, `the payload has no version: Paramedic reads Alertmanager's webhook payload version "4"; remove the receiver's custom payload`)
	case version != `"4"`:
		return nil, fail(http.StatusBadRequest, `payload version %s is not supported: Paramedic reads Alertmanager's webhook payload version "4"`, cut(version, 32))
	case len(p.Alerts) == 0:
		return nil, fail(http.StatusBadRequest, "the payload has no alerts")
	}
	byCluster := make(map[string][]state.Alert, 1)
	for i := range p.Alerts {
		a, err := p.Alerts[i].alert()
		if err != nil {
			return nil, fail(http.StatusBadRequest, "alert %d: %s", i, err)
		}
		cluster := clusters[0]
		if name := a.Labels["cluster"]; len(clusters) > 1 && name != "" {
			cluster = cut(name, maxClusterName)
		}
		byCluster[cluster] = append(byCluster[cluster], a)
	}
	return p.split(byCluster, now), nil
}

// alert checks one alert and gives it its final form.
func (p *payloadAlert) alert() (state.Alert, error) {
	a := state.Alert{
		Fingerprint: state.Fingerprint(p.Fingerprint), Status: p.Status, Labels: p.Labels,
		Annotations: trimAnnotations(p.Annotations), GeneratorURL: cut(p.GeneratorURL, maxURL),
	}
	if a.Status != state.Firing && a.Status != state.Resolved {
		return a, fmt.Errorf("status must be firing or resolved, not %q", cut(string(a.Status), 32))
	}
	if err := checkLabels(p.Labels); err != nil {
		return a, err
	}
	var err error
	if p.StartsAt == "" {
		return a, fmt.Errorf("startsAt is missing")
	}
	if a.StartsAt, err = parseTime(p.StartsAt); err != nil || a.StartsAt.IsZero() {
		return a, fmt.Errorf("startsAt is not an RFC 3339 time: %q", cut(p.StartsAt, 40))
	}
	if p.EndsAt != "" {
		if a.EndsAt, err = parseTime(p.EndsAt); err != nil {
			return a, fmt.Errorf("endsAt is not an RFC 3339 time: %q", cut(p.EndsAt, 40))
		}
	}
	if a.Status == state.Firing {
		a.EndsAt = time.Time{} // a firing alert's end is when its sender would give it up, and differs between the members of a pair
	}
	switch {
	case p.Fingerprint == "":
		a.Fingerprint = fingerprint(p.Labels)
	case !plainID(p.Fingerprint, maxFingerprint):
		return a, fmt.Errorf("fingerprint is not a hash: %q", cut(p.Fingerprint, 32))
	}
	return a, nil
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if t = t.UTC(); err == nil && (t.Year() < 1 || t.Year() > 9998) {
		return t, errors.New("out of range") // it could not be written as JSON again
	}
	return t, err
}

// fingerprint is Alertmanager's own hash of a label set, for senders that leave it out.
func fingerprint(labels map[string]string) state.Fingerprint {
	return state.Fingerprint(model.Fingerprint(model.LabelsToSignature(labels)).String())
}

func checkLabels(labels map[string]string) error {
	if len(labels) == 0 {
		return fmt.Errorf("it has no labels")
	}
	if len(labels) > maxLabels {
		return fmt.Errorf("it has %d labels; at most %d are taken", len(labels), maxLabels)
	}
	size := 0
	for name, value := range labels {
		size += len(name) + len(value)
		switch {
		case name == "":
			return fmt.Errorf("a label has no name")
		case hasControl(name, false):
			return fmt.Errorf("the name of label %q has control characters", cut(name, 64))
		case hasControl(value, true):
			return fmt.Errorf("the value of label %q has control characters", cut(name, 64))
		}
	}
	if size > maxLabelBytes {
		return fmt.Errorf("its labels are %d bytes; at most %d are taken", size, maxLabelBytes)
	}
	return nil
}

// hasControl finds characters that no label has and that would act on a terminal: C0 (but for white space in values), DEL and C1.
func hasControl(text string, white bool) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		if white && (r == '\n' || r == '\t' || r == '\r') {
			return false
		}
		return r < 0x20 || r >= 0x7f && r <= 0x9f
	})
}

// trimAnnotations cuts what is only for people to a size that always fits.
func trimAnnotations(all map[string]string) map[string]string {
	size := 0
	for name, value := range all {
		if len(name) > maxAnnotation || len(value) > maxAnnotation || hasControl(name, false) || hasControl(value, true) {
			size = maxAnnotationBytes + 1
			break
		}
		size += len(name) + len(value)
	}
	if size <= maxAnnotationBytes {
		return all
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	// Short ones first, so that one long text does not push out the summary and the runbook.
	slices.SortFunc(names, func(a, b string) int {
		if d := len(all[a]) - len(all[b]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	kept, size := map[string]string{}, 0
	for _, name := range names {
		value := cut(printable(all[name]), maxAnnotation)
		if size += len(name) + len(value); size > maxAnnotationBytes || hasControl(name, false) {
			break
		}
		kept[name] = value
	}
	return kept
}

// printable takes control characters out.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && r < 0x20 || r >= 0x7f && r <= 0x9f {
			return -1
		}
		return r
	}, text)
}

// cut shortens text to at most n bytes, between characters, and marks it.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := n - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// split makes inputs of the alerts, cluster by cluster. Alerts are sorted by what they are, not by how they came.
func (p *payload) split(byCluster map[string][]state.Alert, now time.Time) []state.Input {
	var inputs []state.Input
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
				if size += weight(&alerts[n]); size > maxPart && n > 0 {
					break
				}
				n++
			}
			batch := &state.AlertBatch{
				Receiver: cut(p.Receiver, 1024), GroupKey: cut(p.GroupKey, 4096), ExternalURL: cut(p.ExternalURL, 2048),
				Truncated: p.TruncatedAlerts, Alerts: alerts[:n:n],
			}
			inputs = append(inputs, state.Input{ID: batchID(cluster, batch), At: now, Cluster: cluster, Alerts: batch})
			alerts = alerts[n:]
		}
	}
	return inputs
}

// batchID is the same for the same alerts, whichever member of an HA pair sent them: it leaves out the sender's URL.
func batchID(cluster string, b *state.AlertBatch) string {
	parts := make([]string, 0, 4+len(b.Alerts)*12)
	parts = append(parts, "alerts", cluster, b.Receiver, b.GroupKey, strconv.FormatUint(b.Truncated, 10))
	for i := range b.Alerts {
		a := &b.Alerts[i]
		parts = append(parts, string(a.Fingerprint), string(a.Status), a.StartsAt.Format(time.RFC3339Nano), a.EndsAt.Format(time.RFC3339Nano))
		parts = appendSorted(parts, a.Labels)
		parts = appendSorted(parts, a.Annotations)
	}
	return state.Hash(parts...)
}

func appendSorted(parts []string, m map[string]string) []string {
	from := len(parts) + 1
	parts = append(parts, strconv.Itoa(len(m)))
	for name := range m {
		parts = append(parts, name)
	}
	slices.Sort(parts[from:])
	for i := from; i < from+len(m); i++ {
		parts = append(parts, m[parts[i]])
	}
	return parts
}

// weight is at least what the alert weighs as JSON, where <, > and & take six bytes.
func weight(a *state.Alert) int {
	n := 256 + jsonWeight(a.GeneratorURL)
	for name, value := range a.Labels {
		n += jsonWeight(name) + jsonWeight(value) + 6
	}
	for name, value := range a.Annotations {
		n += jsonWeight(name) + jsonWeight(value) + 6
	}
	return n
}

func jsonWeight(text string) int {
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
