package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/common/model"

	"paramedic/webhook/httpio"
	"paramedic/webhook/stats"
)

// stats answers with the figures of the incidents that opened in the parameter since, by default
// within retention.
func (s *API) stats(w http.ResponseWriter, r *http.Request) error {
	if err := s.Loaded(); err != nil {
		return err
	}
	if err := onlyParameters(r, "since"); err != nil {
		return err
	}
	since, err := window(r.URL.Query().Get("since"), s.Retain)
	if err != nil {
		return httpio.Fail(http.StatusBadRequest, "%s", err)
	}
	now := s.Clock.Now()
	sum, err := stats.Sum(r.Context(), s.View, now.Add(-since), now)
	if err != nil {
		return httpio.Fail(http.StatusServiceUnavailable, "the request ended before the figures were complete: try again")
	}
	return httpio.WriteJSON(w, http.StatusOK, sum)
}

// window returns the time that the text names. Without a text, it is the retention.
func window(text string, retain time.Duration) (time.Duration, error) {
	if text == "" {
		return retain, nil
	}
	d, err := model.ParseDuration(text)
	switch {
	case err != nil || d <= 0:
		return 0, fmt.Errorf("since must be a time above 0 such as 30d or 12h, not %q", httpio.Cut(text, 32))
	case time.Duration(d) > retain:
		return 0, fmt.Errorf("since %s is longer than incidents are kept: use at most %s (state.retain)", httpio.Cut(text, 32),
			model.Duration(retain))
	}
	return time.Duration(d), nil
}
