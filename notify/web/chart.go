package web

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

// maxSeries is the number of lines up to which a chart is readable.
const maxSeries = 8

// A Chart shows one signal around an incident's onset, drawn as SVG on the server.
type Chart struct {
	ID        string // unique on the page
	Title     string
	Unit      string
	Said      []Saying
	Series    []Line
	Hidden    int // number of series left out
	Threshold *float64
	Marks     []Mark
	To        time.Time // minimal end of the time axis
}

// A Saying is a sentence of a caption with its time.
type Saying struct {
	At   time.Time
	Text string
}

// A Line is one series of a chart.
type Line struct {
	Name   string
	Color  int  // the same for the same name in all charts of a page
	Gone   bool // its worker no longer exists
	Points []state.Point

	whole  bool // it is not about one pod
	pooled bool // … and is shown beside lines of pods
	rank   int  // importance: the lowest rank is drawn first
}

// end returns the time of the line's last point.
func (l Line) end() time.Time {
	if len(l.Points) == 0 {
		return time.Time{}
	}
	return l.Points[len(l.Points)-1].At
}

// last returns the line's last value, if it is a number.
func (l Line) last() (float64, bool) {
	if len(l.Points) == 0 {
		return 0, false
	}
	v := l.Points[len(l.Points)-1].Value
	return v, finite(v)
}

func (l Line) peak() float64 {
	top := math.Inf(-1)
	for _, p := range l.Points {
		if finite(p.Value) {
			top = math.Max(top, p.Value)
		}
	}
	return top
}

// Class returns the line's style: the line of all workers together stands out, each other line has
// a colour.
func (l Line) Class() string {
	if l.pooled {
		return "all"
	}
	return "s" + strconv.Itoa(l.Color%maxSeries)
}

// The chart's size in its own units. A phone shows it at about this size, so that text stays
// readable.
const (
	chartW, chartH          = 440.0, 240.0
	padL, padR, padT, padB  = 58.0, 12.0, 46.0, 30.0
	plotW, plotH            = chartW - padL - padR, chartH - padT - padB
	maxTicksX, wantedTicksY = 5, 4
)

// bounds holds the ranges of the axes.
type bounds struct {
	from, to time.Time
	low, top float64
	step     float64
	factor   float64
	suffix   string
}

// SVG draws the chart. It has a title and a description, and all text is escaped.
func (c Chart) SVG() template.HTML {
	b, ok := c.bounds()
	if !ok {
		return ""
	}
	x := func(t time.Time) float64 {
		return padL + plotW*float64(t.Sub(b.from))/float64(b.to.Sub(b.from))
	}
	y := func(v float64) float64 { return padT + plotH*(1-(v-b.low)/(b.top-b.low)) }
	esc := template.HTMLEscapeString
	var s strings.Builder
	id := esc(c.ID)
	fmt.Fprintf(&s, `<svg class="chart" viewBox="0 0 %.0f %.0f" role="img" aria-labelledby="%s-t %s-d">`,
		chartW, chartH, id, id)
	fmt.Fprintf(&s, `<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, esc(c.Title), id, esc(c.describe(b)))
	for v := b.low; v <= b.top+b.step/2; v += b.step {
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, padL, chartW-padR, y(v), y(v))
		fmt.Fprintf(&s, `<text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			padL-6, y(v)+3.5, esc(tick(v*b.factor)+tightSuffix(b.suffix)))
	}
	for _, t := range timeTicks(b.from, b.to) {
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x(t), x(t), padT+plotH, padT+plotH+4)
		fmt.Fprintf(&s, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`,
			x(t), chartH-8, t.UTC().Format("15:04"))
	}
	limited := c.Threshold != nil && *c.Threshold >= b.low && *c.Threshold <= b.top
	if limited {
		fmt.Fprintf(&s, `<line class="limit" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`,
			padL, chartW-padR, y(*c.Threshold), y(*c.Threshold))
	}
	for _, l := range c.Series {
		c.line(&s, l, x, y)
	}
	if limited {
		fmt.Fprintf(&s, `<text class="limit-text" x="%.1f" y="%.1f">limit %s</text>`,
			padL+4, y(*c.Threshold)-4, esc(state.FormatValue(*c.Threshold, c.Unit)))
	}
	c.marks(&s, b, x)
	s.WriteString(`</svg>`)
	return template.HTML(s.String()) //nolint:gosec // made of numbers and of text that was escaped above
}

// maxPointGap is the largest distance of points that belong to one line. Evidence of an older
// incident is gathered every five minutes.
const maxPointGap = 5*time.Minute + 30*time.Second

// line draws one series. A gap in the data is a gap in the line.
func (c Chart) line(s *strings.Builder, l Line, x func(time.Time) float64, y func(float64) float64) {
	var d strings.Builder
	gap := max(typicalStep(l.Points)*4, maxPointGap)
	pen := false
	for j, p := range l.Points {
		if !finite(p.Value) {
			pen = false
			continue
		}
		if j > 0 && p.At.Sub(l.Points[j-1].At) > gap {
			pen = false
		}
		op := "M"
		if pen {
			op = "L"
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", op, x(p.At), y(p.Value))
		pen = true
	}
	fmt.Fprintf(s, `<path class="line %s" d="%s"><title>%s</title></path>`,
		l.Class(), d.String(), template.HTMLEscapeString(l.Name))
	if v, ok := l.last(); l.Gone && ok {
		fmt.Fprintf(s, `<path class="gone %s" d="M%.1f %.1fm-3.5 -3.5l7 7m0 -7l-7 7"><title>%s was replaced</title></path>`,
			l.Class(), x(l.end()), y(v), template.HTMLEscapeString(l.Name))
	}
}

// bounds returns the ranges of the axes: every point, zero if it is near, and the threshold if it
// is not far.
func (c Chart) bounds() (bounds, bool) {
	b := bounds{low: math.Inf(1), top: math.Inf(-1)}
	for _, l := range c.Series {
		for _, p := range l.Points {
			if !finite(p.Value) {
				continue
			}
			if b.from.IsZero() || p.At.Before(b.from) {
				b.from = p.At
			}
			if p.At.After(b.to) {
				b.to = p.At
			}
			b.low, b.top = math.Min(b.low, p.Value), math.Max(b.top, p.Value)
		}
	}
	if math.IsInf(b.low, 0) || !b.to.After(b.from) {
		return b, false
	}
	if c.To.After(b.to) {
		b.to = c.To
	}
	if c.Threshold != nil && finite(*c.Threshold) && *c.Threshold <= b.top*3 && *c.Threshold > 0 {
		b.top = math.Max(b.top, *c.Threshold)
	}
	if b.low >= 0 && b.low < b.top*0.9 || c.Unit == "ratio" {
		b.low = math.Min(b.low, 0)
	}
	if c.Unit == "ratio" && b.top > 0.5 && b.top <= 1 {
		b.top = 1
	}
	if b.top-b.low < 1e-12 {
		b.top = b.low + math.Max(math.Abs(b.low)*0.1, 1)
	}
	b.factor, b.suffix = state.UnitScale(math.Max(math.Abs(b.top), math.Abs(b.low)), c.Unit)
	b.step = niceStep((b.top-b.low)*b.factor/float64(wantedTicksY)) / b.factor
	b.low = math.Floor(b.low/b.step+1e-9) * b.step
	b.top = math.Ceil(b.top/b.step-1e-9) * b.step
	return b, true
}

// describe returns the chart in words, for people who do not see it.
func (c Chart) describe(b bounds) string {
	var parts []string
	for _, l := range c.Series {
		first, last, top := math.NaN(), math.NaN(), math.Inf(-1)
		for _, p := range l.Points {
			if !finite(p.Value) {
				continue
			}
			if math.IsNaN(first) {
				first = p.Value
			}
			last, top = p.Value, math.Max(top, p.Value)
		}
		parts = append(parts, fmt.Sprintf("%s from %s to %s, highest %s", l.Name, state.FormatValue(first, c.Unit),
			state.FormatValue(last, c.Unit), state.FormatValue(top, c.Unit)))
	}
	return fmt.Sprintf("%s to %s UTC. %s.", b.from.UTC().Format("15:04"), b.to.UTC().Format("15:04"),
		strings.Join(parts, "; "))
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// niceStep returns the next of 1, 2, 2.5 and 5 times a power of ten.
func niceStep(v float64) float64 {
	if v <= 0 || !finite(v) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*p*(1+1e-9) {
			return m * p
		}
	}
	return 10 * p
}

func tick(v float64) string {
	if math.Abs(v) < 1e-9 {
		return "0"
	}
	if math.Abs(v) >= 10000 {
		return strconv.FormatFloat(v/1000, 'f', -1, 64) + "k"
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// tightSuffix drops long units, which the chart's title shows: the axis has little room.
func tightSuffix(s string) string {
	if len(s) <= 4 {
		return s
	}
	return ""
}

// timeTicks returns round times in the window.
func timeTicks(from, to time.Time) []time.Time {
	step := 24 * time.Hour
	for _, s := range []time.Duration{1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 360, 720} {
		if to.Sub(from)/(s*time.Minute) <= time.Duration(maxTicksX) {
			step = s * time.Minute
			break
		}
	}
	var out []time.Time
	for t := from.UTC().Truncate(step); !t.After(to); t = t.Add(step) {
		if !t.Before(from) && len(out) <= 2*maxTicksX {
			out = append(out, t)
		}
	}
	return out
}

// typicalStep returns the median distance of the points.
func typicalStep(points []state.Point) time.Duration {
	var steps []time.Duration
	for i := 1; i < len(points); i++ {
		steps = append(steps, points[i].At.Sub(points[i-1].At))
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

// bar draws a weight in decibans as a bar. It goes right from the middle for the cause, and left
// against it.
func bar(weight, most float64) template.HTML {
	if !finite(weight) || most <= 0 || !finite(most) {
		return ""
	}
	w := 50 * math.Min(math.Abs(weight)/most, 1)
	left, class := 50.0, "for"
	if weight < 0 {
		left, class = 50-w, "against"
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers and two constant words
		`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">`+
			`<line class="mid" x1="50" x2="50" y1="0" y2="10"/><rect class="%s" x="%.1f" y="2" width="%.1f" height="6"/></svg>`,
		class, left, w))
}
