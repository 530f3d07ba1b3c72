package backtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"paramedic/cmd/paramedic/survey"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// probes is the number of moments at which the begin of the data is searched.
const probes = 150

// checkWindow returns an error if Prometheus does not answer, or if its data begin after the
// window. The error names what to do.
func (b *backtest) checkWindow(ctx context.Context) error {
	if _, _, _, err := b.direct.Query(ctx, "vector(1)", b.to); err != nil {
		return survey.Unreachable(b.URL, errors.New(enrich.Explain("Prometheus", err)))
	}
	step := max(time.Minute, b.Since/probes)
	got, _, _, err := b.history.api.QueryRange(ctx, "count(up) or count(ALERTS)", v1.Range{Start: b.from, End: b.to, Step: step})
	if err != nil {
		return fmt.Errorf("searching the begin of the data: %s", enrich.Redact(err))
	}
	matrix, ok := got.(model.Matrix)
	if !ok || len(matrix) == 0 {
		return nil // without samples of up the begin is unknown
	}
	var first time.Time
	for _, series := range matrix {
		if at := series.Values[0].Timestamp.Time(); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.Sub(b.from) <= step+edge {
		return nil
	}
	has := b.to.Sub(first).Truncate(time.Hour)
	use := fmt.Sprintf("use --since %s", days(has))
	if has < time.Hour {
		use = "let it collect data for some hours"
	}
	return fmt.Errorf("there are no data before %s, %s after the begin of the window: %s, or a Prometheus or Thanos that keeps more",
		first.UTC().Format("2006-01-02 15:04 MST"), state.FormatDuration(first.Sub(b.from).Round(time.Minute)), use)
}

// days writes a time of whole hours as --since takes it.
func days(d time.Duration) string { return model.Duration(d).String() }

// noAlerts returns the error for a window without alerts.
func (b *backtest) noAlerts() error {
	return fmt.Errorf("there is no alert between %s and %s: Prometheus has no series %s. If another server evaluates the alert rules "+
		"(a Thanos or Mimir ruler), use its address, or a longer --since", b.from.Format("2006-01-02 15:04 MST"),
		b.to.Format("2006-01-02 15:04 MST"), b.history.match)
}
