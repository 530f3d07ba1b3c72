package backtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

// samplesAt returns a series of ALERTS with samples so many minutes after the end.
func samplesAt(name string, minutes ...float64) *model.SampleStream {
	s := &model.SampleStream{Metric: model.Metric{"__name__": "ALERTS", "alertstate": "firing", "alertname": model.LabelValue(name)}}
	for _, m := range minutes {
		s.Values = append(s.Values, model.SamplePair{Timestamp: model.TimeFromUnixNano(minute(m).UnixNano()), Value: 1})
	}
	return s
}

func minute(m float64) time.Time { return end.Add(time.Duration(m * float64(time.Minute))) }

func newHistory() *history { return &history{active: map[string]*alert{}, gaps: gaps{}} }

// written writes events for comparison.
func written(events []event) []string {
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprintf("%g %s %v", e.at.Sub(end).Minutes(), e.alert.Labels["alertname"]+e.alert.Labels["pod"], map[bool]string{true: "ends", false: "starts"}[e.ends]))
	}
	return out
}

func TestGapLongerThanAStepEndsAnAlert(t *testing.T) {
	got := written(newHistory().advance(model.Matrix{samplesAt("A", 1, 2, 3, 5, 6), samplesAt("B", 9, 10)}, minute(0), minute(10)))
	want := []string{"1 A starts", "4 A ends", "5 A starts", "7 A ends", "9 B starts"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRuleOfTodayKnowsTheStep(t *testing.T) {
	h := newHistory()
	h.rules = rulebook{"A": {{Name: "A", Interval: 5 * time.Minute}}}
	got := written(h.advance(model.Matrix{samplesAt("A", 1, 6, 11, 21)}, minute(0), minute(40)))
	if d := cmp.Diff([]string{"1 A starts", "16 A ends", "21 A starts", "26 A ends"}, got); d != "" {
		t.Error(d)
	}
}

// A rule may have been evaluated less often in the past than today. Its alerts must not fall apart.
func TestSlowerPastDoesNotSplitAnAlert(t *testing.T) {
	h := newHistory()
	h.rules = rulebook{"A": {{Name: "A", Interval: 5 * time.Second}}}
	got := written(h.advance(model.Matrix{samplesAt("A", 1, 2, 3, 4)}, minute(0), minute(40)))
	if d := cmp.Diff([]string{"1 A starts", "5 A ends"}, got); d != "" {
		t.Error(d)
	}
}

// The alerts must not depend on where the window was divided. An end on the edge of a piece is the
// only difference: the next piece tells it.
func TestPiecesGiveTheSameAlertsAsTheWhole(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		var matrix model.Matrix
		for i := range 5 {
			var minutes []float64
			for m := 1.0; m <= 120; m++ {
				if r.IntN(10) > i {
					minutes = append(minutes, m)
				}
			}
			s := samplesAt("A", minutes...)
			s.Metric["pod"] = model.LabelValue(fmt.Sprint(i))
			matrix = append(matrix, s)
		}
		rules := rulebook{"A": {{Interval: time.Minute}}}
		whole, parts := newHistory(), newHistory()
		whole.rules, parts.rules = rules, rules
		want := written(whole.advance(matrix, minute(0), minute(130)))
		var got []string
		for from := 0.0; from < 130; {
			to := min(from+1+float64(r.IntN(30)), 130)
			var cut model.Matrix
			for _, s := range matrix {
				c := &model.SampleStream{Metric: s.Metric}
				for _, v := range s.Values {
					if at := v.Timestamp.Time(); !at.Before(minute(from)) && !at.After(minute(to)) { // as Prometheus 2, with both edges
						c.Values = append(c.Values, v)
					}
				}
				if len(c.Values) > 0 {
					cut = append(cut, c)
				}
			}
			got = append(got, written(parts.advance(cut, minute(from), minute(to)))...)
			from = to
		}
		slices.Sort(got)
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d (-whole +pieces):\n%s", seed, d)
		}
	}
}

func TestSelectorQuotesTheCluster(t *testing.T) {
	for cluster, want := range map[string]string{"": `ALERTS{alertstate="firing"}`, `eu.1"`: `ALERTS{alertstate="firing",cluster=~"eu\\.1\"|"}`} {
		if got := selector(cluster); got != want {
			t.Errorf("%q: %s, want %s", cluster, got, want)
		}
	}
}

func TestRulebookTakesTheRuleWithMostLabels(t *testing.T) {
	b := rulebook{"A": {{Expr: "one"}, {Expr: "two", Labels: map[string]string{"severity": "critical"}}}}
	if r, ok := b.of(map[string]string{"alertname": "A", "severity": "critical"}); !ok || r.Expr != "two" {
		t.Errorf("%+v", r)
	}
	if link := b.link(map[string]string{"alertname": "A"}); !strings.Contains(link, "g0.expr=one&") {
		t.Error(link)
	}
	if link := b.link(map[string]string{"alertname": "B"}); link != "" {
		t.Error(link)
	}
}
