package score

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"

	"paramedic/lab"
	"paramedic/state"
)

// A matrix counts verdicts: rows are injected faults, columns are the names that they got.
type matrix struct {
	Rows    []string `json:"rows"`
	Columns []string `json:"columns"`
	Counts  [][]int  `json:"counts"`
}

// noName is the column for decoys without an incident.
const noName = "none"

// matrixOf counts the final name of every fault and decoy.
func matrixOf(trials []TrialResult) matrix {
	counts := map[[2]string]int{}
	var faults, decoys []string
	columns := map[string]bool{}
	note := func(rows *[]string, row, column string) {
		if !slices.Contains(*rows, row) {
			*rows = append(*rows, row)
		}
		columns[column] = true
		counts[[2]string{row, column}]++
	}
	for _, p := range trials {
		for _, n := range p.Named {
			note(&faults, n.Cause, n.As)
		}
		if p.Kind != kindDecoy {
			continue
		}
		as := noName
		switch {
		case len(p.False) > 0:
			as = p.False[0]
		case p.Incidents > 0:
			as = p.CalledDecoy
		}
		note(&decoys, p.Fault, as)
	}
	m := matrix{Rows: slices.Concat(faults, decoys)}
	last := []string{string(state.BenignAlert), string(state.Unknown), noName, outcomeMissed, outcomeSilent}
	m.Columns = slices.Clone(faults) // also those that never were named: the right ones are a diagonal
	for _, c := range slices.Sorted(maps.Keys(columns)) {
		if !slices.Contains(m.Columns, c) && !slices.Contains(last, c) {
			m.Columns = append(m.Columns, c)
		}
	}
	for _, c := range last {
		if columns[c] && !slices.Contains(m.Columns, c) {
			m.Columns = append(m.Columns, c)
		}
	}
	for _, row := range m.Rows {
		line := make([]int, len(m.Columns))
		for i, c := range m.Columns {
			line[i] = counts[[2]string{row, c}]
		}
		m.Counts = append(m.Counts, line)
	}
	return m
}

// SVG returns the matrix as a picture. Right names are green, missing verdicts grey, wrong names
// red.
func (m matrix) SVG() []byte {
	const cell, left, top = 26, 200, 190
	width, height := left+cell*len(m.Columns)+90, top+cell*len(m.Rows)+24
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"`+
		` viewBox="0 0 %[1]d %[2]d" font-family="system-ui, sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#57606a">was there ↓ called →</text>`+"\n", left-10, top-10)
	for i, c := range m.Columns {
		x := left + cell*i + cell/2 + 4
		fmt.Fprintf(&b, `<text transform="translate(%d %d) rotate(-55)" fill="#1f2328">%s</text>`+"\n", x, top-8, html.EscapeString(c))
	}
	for r, row := range m.Rows {
		y := top + cell*r
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#1f2328">%s</text>`+"\n", left-10, y+cell/2+4, html.EscapeString(row))
		all := 0
		for _, n := range m.Counts[r] {
			all += n
		}
		for i, n := range m.Counts[r] {
			x := left + cell*i
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d"`+
				` fill="%s" stroke="#d0d7de"/>`+"\n", x, y, cell, cell, m.colour(row, m.Columns[i], n, all))
			if n > 0 {
				ink := "#1f2328"
				if 2*n > all {
					ink = "#ffffff"
				}
				fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="%s">%d</text>`+"\n", x+cell/2, y+cell/2+4, ink, n)
			}
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func (m matrix) colour(row, column string, n, all int) string {
	if n == 0 {
		return "#f6f8fa"
	}
	from, to := [3]int{255, 214, 214}, [3]int{180, 35, 24} // wrong
	switch {
	case row == column || column == noName, m.decoy(row) && column == string(state.BenignAlert):
		from, to = [3]int{208, 240, 216}, [3]int{22, 119, 60} // right
	case column == string(state.Unknown) || column == outcomeSilent || column == outcomeMissed:
		from, to = [3]int{225, 228, 232}, [3]int{87, 96, 106} // nothing was claimed
		if m.decoy(row) {
			from, to = [3]int{208, 240, 216}, [3]int{22, 119, 60}
		}
	}
	share := float64(n) / float64(all)
	mix := func(i int) int { return from[i] + int(share*float64(to[i]-from[i])) }
	return fmt.Sprintf("#%02x%02x%02x", mix(0), mix(1), mix(2))
}

// decoy reports whether a row is a decoy.
func (m matrix) decoy(row string) bool { return slices.Contains(lab.Decoys(), row) }
