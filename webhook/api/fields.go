package api

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"paramedic/state"
	"paramedic/webhook/httpio"
)

// fieldsOf lists the fields that the body of a verb may have besides actor and reason.
var fieldsOf = map[state.Verb][]string{
	state.VerbSilence:  {"duration", "until"},
	state.VerbFeedback: {"right", "cause"},
	state.VerbApprove:  {"plan_hash"},
	state.VerbDeny:     {"plan_hash"},
	state.VerbCancel:   {"seen"},
	state.VerbHalt:     {"cluster"},
	state.VerbResume:   {"cluster"},
}

// decodeWrite reads the body of a verb. An error names the wrong field and the fields of the verb.
func decodeWrite(body []byte, verb state.Verb) (WriteJSON, error) {
	var out WriteJSON
	if len(body) == 0 {
		return out, nil
	}
	var given map[string]json.RawMessage
	if err := httpio.DecodeOne(body, &given); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			err = errors.New("it is not an object")
		}
		return out, httpio.Fail(http.StatusBadRequest, `the body must be a JSON object such as {"actor": …, "reason": …}: %s`, err)
	}
	fields := map[string]struct {
		into any
		want string
	}{
		"actor": {&out.Actor, "text"}, "reason": {&out.Reason, "text"}, "plan_hash": {&out.PlanHash, "text"},
		"seen":     {&out.Seen, "a state of an action"},
		"duration": {&out.Duration, `text such as "2h"`}, "until": {&out.Until, `a time such as "2026-11-21T03:00:00Z"`},
		"right": {&out.Right, "true or false"}, "cause": {&out.Cause, "the ID of a cause"}, "cluster": {&out.Cluster, "text"},
	}
	allowed := append([]string{"actor", "reason"}, fieldsOf[verb]...)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(allowed, name) {
			return out, httpio.Fail(http.StatusBadRequest, "unknown field %q: %s takes %s",
				httpio.Cut(name, 32), verb, strings.Join(allowed, ", "))
		}
		if err := json.Unmarshal(given[name], fields[name].into); err != nil {
			return out, httpio.Fail(http.StatusBadRequest, "%s must be %s", name, fields[name].want)
		}
	}
	return out, nil
}

// parseUntil returns the end of a silence.
func parseUntil(duration string, until time.Time, now time.Time) (time.Time, error) {
	const most = 30 * 24 * time.Hour
	if duration != "" {
		d, err := time.ParseDuration(duration)
		if err != nil || d <= 0 {
			return until, fmt.Errorf(`duration must be like "2h" or "45m", not %q`, httpio.Cut(duration, 32))
		}
		until = now.Add(d)
	}
	if until.IsZero() {
		until = now.Add(time.Hour)
	}
	if !until.After(now) || until.Sub(now) > most {
		return until, fmt.Errorf("a silence must end in the future, at most 30 days from now")
	}
	return until.UTC(), nil
}
