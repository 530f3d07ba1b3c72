package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"paramedic/rules/promql"
)

// MaxPage is the largest page that is read, in bytes after decompression.
const MaxPage = 16 << 20

// maxSeries limits the series of one page. A page with more is refused, to bound memory.
const maxSeries = 20000

// A line is one series of a page, without its value.
type line struct {
	metric string
	labels map[string]string
	le     float64 // of a bucket; NaN otherwise
	key    string  // identifies the series in the next page
}

// A point is one line of a page with its value.
type point struct {
	*line
	value float64
}

func newLine(metric string, ls map[string]string, le float64) *line {
	var b strings.Builder
	b.WriteString(metric)
	for _, k := range slices.Sorted(maps.Keys(ls)) {
		b.WriteString("\x00" + k + "\x00" + ls[k])
	}
	if !math.IsNaN(le) {
		b.WriteString("\x00le\x00" + strconv.FormatFloat(le, 'g', -1, 64))
	}
	return &line{metric, ls, le, b.String()}
}

// A reader parses one target's pages in the text format, as Prometheus does. Most series repeat
// from page to page, so it caches them by their text and parses only new ones. It is not safe for
// concurrent use.
type reader struct {
	wanted  map[string]bool
	lines   map[string]*line // by their text; nil for an unwanted series
	symbols *labels.SymbolTable
}

func newReader(wanted map[string]bool) *reader {
	return &reader{wanted: wanted, lines: map[string]*line{}, symbols: labels.NewSymbolTable()}
}

// read returns the wanted series of a page. A page with a syntax error is an error as a whole.
func (r *reader) read(body io.Reader) ([]point, error) {
	page, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("page breaks off: %w", err)
	}
	if len(r.lines) > 2*maxSeries { // the set of series changes over time
		*r = *newReader(r.wanted)
	}
	var out []point
	parser := textparse.NewPromParser(page, r.symbols, false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("page is not in the Prometheus text format: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		text, _, value := parser.Series()
		l, known := r.lines[string(text)]
		if !known {
			l = r.line(text, parser)
			r.lines[string(text)] = l
		}
		if l != nil {
			out = append(out, point{l, value})
		}
		if len(out) > maxSeries {
			return nil, fmt.Errorf("page has more than %d series that matter", maxSeries)
		}
	}
}

// line parses a series, or returns nil if it is unwanted. Quantiles of summaries are unwanted: they
// cover one process since its start, so they cannot be combined.
func (r *reader) line(text []byte, parser textparse.Parser) *line {
	if name, _, _ := bytes.Cut(text, []byte("{")); len(name) > 0 && !r.wanted[promql.EngineName(string(name))] {
		return nil
	}
	var ls labels.Labels
	parser.Labels(&ls)
	all := ls.Map()
	metric := promql.EngineName(all[model.MetricNameLabel])
	if _, quantile := all["quantile"]; quantile || !r.wanted[metric] {
		return nil
	}
	delete(all, model.MetricNameLabel)
	le := math.NaN()
	if strings.HasSuffix(metric, "_bucket") {
		edge, err := strconv.ParseFloat(all["le"], 64)
		if err != nil {
			return nil // a bucket without a valid edge is useless
		}
		le = edge
		delete(all, "le")
	}
	return newLine(metric, all, le)
}
