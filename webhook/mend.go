package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

// Alertmanager drops what is answered with 4xx, and a payload is a whole group. So whatever is odd about one alert is mended and told,
// and never refused: refusing it would lose its neighbours, and itself.

// unnamed is the rule of an alert that has no labels.
const unnamed = "alert without labels"

// replacement stands for what is taken out of a label, as U+FFFD does where text is not UTF-8. Without it, a label could come to name
// something else that exists.
const replacement = "\ufffd"

// What a label may weigh where all of an alert's labels together weigh too much.
const (
	maxLabelName  = 256
	maxLabelValue = 1 << 10
)

// leading are the labels that say what and where, which are the last to go.
var leading = []string{"alertname", "severity", "cluster", "namespace", "pod", "node", "instance", "model_name", "gpu", "exported_namespace",
	"exported_pod", "Hostname", "UUID", "deployment", "service", "job", "container"}

// decodePayload reads the payload as Alertmanager writes it, or what can be read of one whose types are others.
func decodePayload(body []byte) (payload, error) {
	var p payload
	err := decodeOne(body, &p, false)
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return p, err
	}
	var raw struct {
		Version         json.RawMessage   `json:"version"`
		Receiver        json.RawMessage   `json:"receiver"`
		GroupKey        json.RawMessage   `json:"groupKey"`
		ExternalURL     json.RawMessage   `json:"externalURL"`
		TruncatedAlerts json.RawMessage   `json:"truncatedAlerts"`
		Alerts          []json.RawMessage `json:"alerts"`
	}
	if err := decodeOne(body, &raw, false); errors.As(err, &kind) {
		if kind.Field == "" {
			return p, errors.New("it is no JSON object")
		}
		return p, fmt.Errorf("%s is no list of alerts", kind.Field)
	} else if err != nil {
		return p, err
	}
	truncated, _ := strconv.ParseUint(textOf(raw.TruncatedAlerts), 10, 64)
	p = payload{Version: raw.Version, Receiver: textOf(raw.Receiver), GroupKey: textOf(raw.GroupKey), ExternalURL: textOf(raw.ExternalURL),
		TruncatedAlerts: truncated, Alerts: make([]payloadAlert, len(raw.Alerts))}
	for i, alert := range raw.Alerts {
		p.Alerts[i] = decodeAlert(alert)
	}
	return p, nil
}

// decodeAlert reads one alert, whatever the types of its fields are.
func decodeAlert(body []byte) payloadAlert {
	var a payloadAlert
	if json.Unmarshal(body, &a) == nil {
		return a
	}
	var raw struct {
		Status       json.RawMessage `json:"status"`
		Labels       json.RawMessage `json:"labels"`
		Annotations  json.RawMessage `json:"annotations"`
		StartsAt     json.RawMessage `json:"startsAt"`
		EndsAt       json.RawMessage `json:"endsAt"`
		GeneratorURL json.RawMessage `json:"generatorURL"`
		Fingerprint  json.RawMessage `json:"fingerprint"`
	}
	if json.Unmarshal(body, &raw) != nil {
		return payloadAlert{odd: []string{"it is no object"}}
	}
	return payloadAlert{odd: []string{"a field is of another type than Alertmanager's"}, Status: state.AlertStatus(textOf(raw.Status)),
		Labels: textsOf(raw.Labels), Annotations: textsOf(raw.Annotations), StartsAt: textOf(raw.StartsAt), EndsAt: textOf(raw.EndsAt),
		GeneratorURL: textOf(raw.GeneratorURL), Fingerprint: textOf(raw.Fingerprint)}
}

// textOf is a JSON value as text: that of a string, and any other as it is written.
func textOf(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil { // null leaves it empty
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return ""
	}
	return compact.String()
}

func textsOf(raw json.RawMessage) map[string]string {
	var values map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &values) != nil {
		return nil
	}
	texts := make(map[string]string, len(values))
	for name, value := range values {
		texts[name] = textOf(value)
	}
	return texts
}

// alert gives one alert its final form, and says what had to be mended for it.
func (p *payloadAlert) alert(now time.Time) (state.Alert, []string) {
	odd := p.odd
	mended := func(format string, args ...any) { odd = append(odd, fmt.Sprintf(format, args...)) }
	a := state.Alert{Status: state.AlertStatus(strings.ToLower(strings.TrimSpace(string(p.Status)))),
		Annotations: trimAnnotations(p.Annotations), GeneratorURL: printable(cut(p.GeneratorURL, maxURL))}
	if a.Status != p.Status || a.Status != state.Firing && a.Status != state.Resolved {
		mended("status must be firing or resolved, not %q", cut(string(p.Status), 32))
		if a.Status != state.Resolved {
			a.Status = state.Firing // told in vain at worst; the other way round it would be lost
		}
	}
	var err error
	if a.StartsAt, err = parseTime(p.StartsAt); err != nil || a.StartsAt.IsZero() {
		mended("startsAt is not an RFC 3339 time: %q", cut(p.StartsAt, 40))
		a.StartsAt = now.UTC()
	}
	if p.EndsAt != "" {
		if a.EndsAt, err = parseTime(p.EndsAt); err != nil {
			mended("endsAt is not an RFC 3339 time: %q", cut(p.EndsAt, 40))
			a.EndsAt = now.UTC()
		}
	}
	if a.Status == state.Firing {
		a.EndsAt = time.Time{} // a firing alert's end is when its sender would give it up, and differs between the members of a pair
	}
	// The fingerprint is of the labels as they came, so that an alert's end is known by it whatever had to be mended.
	a.Fingerprint = state.Fingerprint(p.Fingerprint)
	if !plainID(p.Fingerprint, maxFingerprint) {
		if p.Fingerprint != "" {
			mended("fingerprint is not a hash: %q", cut(p.Fingerprint, 32))
		}
		a.Fingerprint = fingerprint(p.Labels)
	}
	var why string
	if a.Labels, why = mendLabels(p.Labels); why != "" {
		mended("%s", why)
	}
	return a, odd
}

// mendLabels gives labels that can be kept and shown, and what was wrong with those that came; empty if nothing was.
func mendLabels(all map[string]string) (map[string]string, string) {
	why := checkLabels(all)
	if why == "" {
		return all, ""
	}
	kept, size := make(map[string]string, min(len(all), maxLabels)), 0
	for _, name := range labelsByRank(all) {
		value := cut(visible(all[name], true), maxLabelValue)
		plain := cut(visible(name, false), maxLabelName)
		for _, taken := kept[plain]; taken; _, taken = kept[plain] {
			plain += replacement
		}
		if plain == "" || len(kept) == maxLabels || size+len(plain)+len(value) > maxLabelBytes {
			continue
		}
		kept[plain] = value
		size += len(plain) + len(value)
	}
	if len(kept) == 0 {
		kept["alertname"] = unnamed
	}
	return kept, why
}

// labelsByRank sorts the names of labels: those that lead, then short ones before long ones, so that one long text pushes out no others.
func labelsByRank(all map[string]string) []string {
	rank := func(name string) int {
		if i := slices.Index(leading, name); i >= 0 {
			return i
		}
		return len(leading) + len(name) + len(all[name])
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// visible puts a sign that can be seen in place of control characters.
func visible(text string, white bool) string {
	if !hasControl(text, white) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if hasControl(string(r), white) {
			out.WriteString(replacement)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// refused logs what Alertmanager will not send again.
func (s *Server) refused(err error) {
	var a *answer
	if errors.As(err, &a) && a.code < http.StatusInternalServerError {
		s.Logger.Error("an Alertmanager payload was refused: its alerts are lost, because Alertmanager does not send it again", "code", a.code, "err", a.text)
	}
}

// turnedAway logs that a sender has not the credentials. Anybody can be one, so it is said once a minute.
func (s *Server) turnedAway(r *http.Request, deny error) {
	var a *answer
	if !errors.As(deny, &a) || a.code >= http.StatusInternalServerError {
		return
	}
	s.mu.Lock()
	now := s.Clock.Now()
	told := now.Before(s.turnedAwayAt.Add(time.Minute)) && !s.turnedAwayAt.IsZero()
	if !told {
		s.turnedAwayAt = now
	}
	s.mu.Unlock()
	if !told {
		s.Logger.Warn("a payload was turned away: if it was Alertmanager's, its alerts are lost", "code", a.code, "from", r.RemoteAddr, "err", a.text)
	}
}
