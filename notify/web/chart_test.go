package web

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

func TestChartIsWellFormedAndDescribed(t *testing.T) {
	c := Chart{ID: "c", Title: "KV cache <used>", Unit: "ratio", Threshold: ptr(0.95),
		Marks: []Mark{{At: at(-14), Text: "onset", Kind: "onset"}, {At: at(-5), Text: "write", Kind: writeKind,
			Long: "max_num_seqs <256>"}, {At: at(-9), Text: "kv pressure", Kind: alertKind}, {At: at(-500), Text: "long ago"}},
		Series: []Line{{Name: `a"&<b>`, Points: ramp(0.6, 0.97, -14, 0)}}}
	svg := string(c.SVG())
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("%v in\n%s", err, svg)
			}
			break
		}
	}
	contains(t, svg, "<title id=\"c-t\">KV cache &lt;used&gt;</title>", "from 60 % to 97 %, highest 97 %", ">limit 95 %<", ">onset<", ">write<", "03:07:00 write: max_num_seqs &lt;256&gt;", `class="mark alert"`, "03:03:00 kv pressure", ">100 %<", ">03:00<", `role="img"`)
	if strings.Contains(svg, "long ago") || strings.Contains(svg, "NaN") || strings.Contains(svg, "style=") {
		t.Errorf("got\n%s", svg)
	}
}

func TestChartsAcceptExtremeData(t *testing.T) {
	p := func(m, v float64) state.Point { return state.Point{At: at(m), Value: v} }
	for name, points := range map[string][]state.Point{
		"none": nil, "one": {p(0, 1)}, "same time": {p(0, 1), p(0, 2)}, "flat zero": {p(-1, 0), p(0, 0)}, "flat": {p(-1, 5), p(0, 5)},
		"negative":     {p(-1, -5), p(0, -2)},
		"not a number": {p(-2, 1), p(-1, math.NaN()), p(0, math.Inf(1))}, "huge": {p(-1, 1e300), p(0, -1e300)},
		"tiny": {p(-1, 1e-12), p(0, 2e-12)}, "years": {{At: now.AddDate(-30, 0, 0), Value: 1}, p(0, 2)},
	} {
		for _, unit := range []string{"ratio", "s", "bytes", "odd"} {
			svg := string(Chart{ID: "c", Unit: unit, Threshold: ptr(math.NaN()), Series: []Line{{Name: "x", Points: points}}}.SVG())
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || len(svg) > 20000 {
				t.Errorf("%s in %s: %.300s", name, unit, svg)
			}
		}
	}
}

func TestGapInDataIsGapInLine(t *testing.T) {
	var points []state.Point
	for m := -60.0; m <= 0; m++ {
		if m < -40 || m > -20 {
			points = append(points, state.Point{At: at(m), Value: 1})
		}
	}
	if n := strings.Count(string(Chart{Series: []Line{{Points: points}}}.SVG()), "M"); n != 2 {
		t.Errorf("%d strokes, want 2", n)
	}
}

func TestEightMostImportantSeriesAreDrawn(t *testing.T) {
	ev := state.Evidence{}
	for i := range 12 {
		ev.Samples = append(ev.Samples,
			state.Sample{Value: float64(i), Entity: state.Entity{Pod: fmt.Sprintf("p%d", i)}, Series: ramp(0, float64(i), 0, 0)})
	}
	c := handler(t, fixture(), nil).chart("x", ev.Charted(), state.Incident{Scope: state.Scope{Pods: []string{"p1"}}}, time.Time{})
	if len(c.Series) != 8 || c.Hidden != 4 || c.Series[0].Name != "p1" || c.Series[1].Name != "p11" {
		t.Errorf("%d series, first %s and %s", len(c.Series), c.Series[0].Name, c.Series[1].Name)
	}
}

func TestAxesAreRound(t *testing.T) {
	for in, want := range map[float64]float64{0.03: 0.05, 1: 1, 1.1: 2, 2.2: 2.5, 7: 10, 0: 1} {
		if got := niceStep(in); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, want %v", in, got, want)
		}
	}
	for _, d := range []time.Duration{10 * time.Minute, time.Hour, 7 * time.Hour, 100 * time.Hour} {
		if n := len(timeTicks(now.Add(-d), now)); n < 2 || n > 7 {
			t.Errorf("%v has %d ticks", d, n)
		}
	}
}
