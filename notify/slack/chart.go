package slack

import (
	"fmt"

	api "github.com/slack-go/slack"

	"paramedic/notify"
	"paramedic/state"
)

// Slack's limits of a chart.
const (
	chartPoints = 20
	chartLabel  = 20
	chartTitle  = 50
)

// chart is a line chart of at most twenty points a series; nil where the signal cannot be drawn within Slack's limits.
func chart(c *notify.Chart) api.Block {
	if c == nil || len(c.Series) == 0 {
		return nil
	}
	base := thin(c.Series[0].Points)
	var labels []string
	seen := map[string]bool{}
	for _, p := range base {
		label := p.At.UTC().Format("15:04:05")
		if seen[label] {
			return nil
		}
		seen[label] = true
		labels = append(labels, label)
	}
	names := map[string]bool{}
	var series []api.DataVisualizationDataSeries
	for i, s := range c.Series {
		points := thin(s.Points)
		if len(points) != len(base) {
			continue // every series needs a value at every label
		}
		name := tail(s.Name, chartLabel)
		if name == "" || names[name] {
			name = fmt.Sprintf("series %d", i+1)
		}
		names[name] = true
		var data []api.DataVisualizationDataPoint
		for j, p := range points {
			data = append(data, api.NewDataVisualizationDataPoint(labels[j], p.Value))
		}
		series = append(series, api.NewDataVisualizationDataSeries(name, data...))
	}
	axis := api.NewDataVisualizationAxisConfig(labels...)
	if c.Unit != "" {
		axis = axis.WithYLabel(notify.Cut(c.Unit, chartTitle))
	}
	title := notify.Cut(c.Title, chartTitle)
	b := api.NewDataVisualizationBlock(title, api.NewDataVisualizationLineChart(axis, series...))
	if b.Validate() != nil {
		return nil
	}
	return b
}

// thin keeps at most twenty points, the first and the last among them.
func thin(points []state.Point) []state.Point {
	if len(points) <= chartPoints {
		return points
	}
	out := make([]state.Point, chartPoints)
	for i := range out {
		out[i] = points[i*(len(points)-1)/(chartPoints-1)]
	}
	return out
}

// tail keeps a name's end: pods differ in it.
func tail(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	return "…" + string(r[len(r)-limit+1:])
}
