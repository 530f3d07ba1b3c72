package alertmanager

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/httpio"
)

// The bounds of one alert. An alert with more labels is set aside, because labels are its identity.
// Annotations and URLs are for people and are cut.
const (
	maxLabels          = 128
	maxLabelBytes      = 16 << 10
	maxAnnotation      = 4 << 10
	maxAnnotationBytes = 32 << 10
	maxURL             = 8 << 10
	maxFingerprint     = 64
	maxClusterName     = 253
	// maxPart bounds the JSON of one input's alerts. An external NATS server accepts messages of at
	// most 1 MiB by default.
	maxPart = 768 << 10
)

// alert checks one alert and returns it in its final form. Its error is a *setAsideError.
func (p *payloadAlert) alert() (state.Alert, error) {
	a := state.Alert{
		Fingerprint: state.Fingerprint(p.Fingerprint), Status: state.AlertStatus(p.Status), Labels: p.Labels,
		Annotations: trimAnnotations(p.Annotations), GeneratorURL: httpio.Cut(p.GeneratorURL, maxURL),
	}
	if p.malformed != nil {
		return a, reject(reasonMalformed, "it is not an Alertmanager alert: %s", p.malformed)
	}
	if a.Status != state.Firing && a.Status != state.Resolved {
		return a, reject(reasonStatus, "status must be firing or resolved, not %q", httpio.Cut(string(a.Status), 32))
	}
	if err := checkLabels(p.Labels); err != nil {
		return a, err
	}
	var err error
	if p.StartsAt == "" {
		return a, reject(reasonTime, "startsAt is missing")
	}
	if a.StartsAt, err = httpio.ParseTime(p.StartsAt); err != nil || a.StartsAt.IsZero() {
		return a, reject(reasonTime, "startsAt is not an RFC 3339 time of the years 1 to 9998: %q", httpio.Cut(p.StartsAt, 40))
	}
	// The end of a firing alert is when its sender would give it up. It differs between the members
	// of a pair, and is not used.
	if a.Status == state.Resolved && p.EndsAt != "" {
		if a.EndsAt, err = httpio.ParseTime(p.EndsAt); err != nil {
			return a, reject(reasonTime, "endsAt is not an RFC 3339 time of the years 1 to 9998: %q", httpio.Cut(p.EndsAt, 40))
		}
	}
	switch {
	case p.Fingerprint == "":
		a.Fingerprint = fingerprint(p.Labels)
	case !httpio.PlainID(p.Fingerprint, maxFingerprint):
		return a, reject(reasonFingerprint, "fingerprint is not a hash: %q", httpio.Cut(p.Fingerprint, 32))
	}
	return a, nil
}

// fingerprint returns Alertmanager's own hash of a label set, for senders that leave it out.
func fingerprint(labels map[string]string) state.Fingerprint {
	return state.Fingerprint(model.Fingerprint(model.LabelsToSignature(labels)).String())
}

func checkLabels(labels map[string]string) error {
	if len(labels) == 0 {
		return reject(reasonNoLabels, "it has no labels")
	}
	if len(labels) > maxLabels {
		return reject(reasonManyLabels, "it has %d labels, and the limit is %d", len(labels), maxLabels)
	}
	size := 0
	for name, value := range labels {
		size += len(name) + len(value)
		switch {
		case name == "":
			return reject(reasonLabelName, "a label has no name")
		case httpio.HasControl(name, false):
			return reject(reasonControl, "the name of label %q has control characters", httpio.Cut(name, 64))
		case httpio.HasControl(value, true):
			return reject(reasonControl, "the value of label %q has control characters", httpio.Cut(name, 64))
		}
	}
	if size > maxLabelBytes {
		return reject(reasonLargeLabels, "its labels have %d bytes, and the limit is %d", size, maxLabelBytes)
	}
	return nil
}

// trimAnnotations cuts annotations to maxAnnotation each and maxAnnotationBytes together.
func trimAnnotations(all map[string]string) map[string]string {
	size := 0
	for name, value := range all {
		if len(name) > maxAnnotation || len(value) > maxAnnotation || httpio.HasControl(name, false) ||
			httpio.HasControl(value, true) {
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
	// Short ones come first, so that one long text does not push out the summary and the runbook.
	slices.SortFunc(names, func(a, b string) int {
		if d := len(all[a]) - len(all[b]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	kept, size := map[string]string{}, 0
	for _, name := range names {
		if httpio.HasControl(name, false) {
			continue
		}
		value := httpio.Cut(text.Lines(all[name]), maxAnnotation)
		if size += len(name) + len(value); size > maxAnnotationBytes {
			break
		}
		kept[name] = value
	}
	return kept
}
