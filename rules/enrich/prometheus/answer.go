package prometheus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/promql"
)

// An answer is the answer to one query.
type answer struct {
	series  []series
	partial bool // the server reports that a store behind it did not answer
	err     error
}

// A series is one series of an answer, with the points of its range; an instant query gives one
// point.
type series struct {
	labels map[string]string
	points []point
}

type point struct {
	at time.Time
	v  float64
}

// values returns each series of an instant query with its value.
func (a answer) values() iter.Seq2[map[string]string, float64] {
	return func(yield func(map[string]string, float64) bool) {
		for _, s := range a.series {
			if len(s.points) > 0 && !yield(s.labels, s.points[0].v) {
				return
			}
		}
	}
}

// ask sends a query. If the server finds it too long, ask divides it, and remembers the length:
// VictoriaMetrics takes 16 KiB (-search.maxQueryLen).
func (c *Client) ask(ctx context.Context, j plannedQuery) answer {
	length := int64(len(j.union.Text()))
	if most := c.longest.Load(); most == 0 || length < most || !j.union.Divisible() {
		got := c.askWhole(ctx, j)
		if !isTooLong(got.err) || !j.union.Divisible() {
			return got
		}
		lower(&c.longest, length)
	}
	var out answer
	for _, half := range j.union.Halves() {
		piece := j
		piece.union = half
		got := c.ask(ctx, piece)
		if got.err != nil {
			return answer{err: got.err}
		}
		out.series, out.partial = append(out.series, got.series...), out.partial || got.partial
	}
	return out
}

// lower sets a limit to a value, unless it is lower.
func lower(limit *atomic.Int64, to int64) {
	for {
		now := limit.Load()
		if now != 0 && now <= to || limit.CompareAndSwap(now, to) {
			return
		}
	}
}

// isTooLong reports whether a server, or a proxy before it, refused a query for its length.
func isTooLong(err error) bool {
	var status statusError
	if errors.As(err, &status) {
		return status == http.StatusRequestURITooLong || status == http.StatusRequestEntityTooLarge ||
			status == http.StatusRequestHeaderFieldsTooLarge
	}
	return err != nil && strings.Contains(err.Error(), "too long query")
}

// A statusError is an answer of a proxy.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("answered with status %d", int(e)) }

// askWhole sends a query as it is. A gathering gets thousands of series, and client_golang's API
// client decodes each three times. That would take half of the bot's time for a gathering. So
// askWhole decodes answers once, with the decoder that client_golang uses.
func (c *Client) askWhole(ctx context.Context, j plannedQuery) answer {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	query, err := c.restricted(j.union.Text())
	if err != nil {
		return answer{err: err}
	}
	form := url.Values{"query": {query}, "timeout": {c.timeout.String()}, "lookback_delta": {Stale.String()}}
	path := "/api/v1/query"
	if j.span != nil {
		path += "_range"
		form.Set("start", unix(j.span.Start))
		form.Set("end", unix(j.span.End))
		form.Set("step", strconv.FormatFloat(j.span.Step.Seconds(), 'f', -1, 64))
	} else {
		form.Set("time", unix(j.at))
	}
	got, err := c.post(ctx, path, form)
	if err != nil {
		if ctx.Err() != nil { // the client's text for its own deadline differs by version
			err = ctx.Err()
		}
		return answer{err: err}
	}
	return got
}

// restricted adds the client's matchers to each selector of a query.
func (c *Client) restricted(query string) (string, error) {
	if len(c.match) == 0 {
		return query, nil
	}
	expr, err := promql.Parser.ParseExpr(query)
	if err != nil {
		return "", fmt.Errorf("reading a query: %w", err)
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if sel, ok := n.(*parser.VectorSelector); ok {
			sel.LabelMatchers = append(sel.LabelMatchers, c.match...)
		}
		return nil
	})
	return expr.String(), nil
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64) }

// post sends a form. If a server or proxy refuses POST, it sends the same as a GET.
func (c *Client) post(ctx context.Context, path string, form url.Values) (answer, error) {
	u := c.url(path, nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header["Idempotency-Key"] = nil // net/http may then send the query again if the server closed the connection
	status, got, err := c.send(req)
	switch status {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
	default:
		return got, err
	}
	u.RawQuery = form.Encode()
	if req, err = http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil); err != nil {
		return answer{}, fmt.Errorf("making a request: %w", err)
	}
	_, got, err = c.send(req)
	return got, err
}

// bodies are buffers for answers, which are large. Decoded answers do not refer to them.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (c *Client) send(req *http.Request) (int, answer, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body := bodies.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds only buffers
	defer bodies.Put(body)
	body.Reset()
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return 0, answer{}, err
	}
	got, err := decode(body.Bytes())
	if resp.StatusCode/100 != 2 && (err == nil || errors.Is(err, errNoAnswer)) { // the answer of a proxy
		err = statusError(resp.StatusCode)
	}
	return resp.StatusCode, got, err
}

// errNoAnswer reports that a body is not an answer of Prometheus' API.
var errNoAnswer = errors.New("the answer cannot be read")

// decode parses the API's answer to a query: its series, or its error.
func decode(body []byte) (answer, error) {
	it := jsoniter.ParseBytes(jsoniter.ConfigDefault, body)
	var out answer
	var status, kind, text string
	it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
		switch field {
		case "status":
			status = it.ReadString()
		case "errorType":
			kind = it.ReadString()
		case "error":
			text = it.ReadString()
		case "warnings":
			it.ReadArrayCB(func(it *jsoniter.Iterator) bool {
				// Notes about the query itself begin so, and the answer is complete.
				out.partial = !strings.HasPrefix(it.ReadString(), "PromQL ") || out.partial
				return it.Error == nil
			})
		case "isPartial": // VictoriaMetrics' field for warnings
			out.partial = it.ReadBool() || out.partial
		case "data":
			out.series = readData(it)
		default:
			it.Skip()
		}
		return it.Error == nil
	})
	switch {
	case it.Error != nil:
		return answer{}, fmt.Errorf("%w: %w", errNoAnswer, it.Error)
	case status == "error":
		return answer{}, fmt.Errorf("%s: %s", kind, text)
	case status != "success":
		return answer{}, errNoAnswer
	}
	return out, nil
}

func readData(it *jsoniter.Iterator) []series {
	var out []series
	var points []point // reused for each series
	it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
		if field != "result" {
			it.Skip()
			return it.Error == nil
		}
		return it.ReadArrayCB(func(it *jsoniter.Iterator) bool {
			if it.WhatIsNext() != jsoniter.ObjectValue {
				it.ReportError("reading the result", "want series, not a scalar or a string")
				return false
			}
			labels := make(map[string]string, 8)
			points = readSeries(it, labels, points[:0])
			out = append(out, series{labels, slices.Clone(points)})
			return it.Error == nil
		})
	})
	return out
}

// readSeries fills the labels of a series and appends its points.
func readSeries(it *jsoniter.Iterator, labels map[string]string, points []point) []point {
	it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
		switch field {
		case "metric":
			it.ReadObjectCB(func(it *jsoniter.Iterator, name string) bool {
				labels[name] = it.ReadString()
				return it.Error == nil
			})
		case "value":
			points = append(points, readPoint(it))
		case "values":
			it.ReadArrayCB(func(it *jsoniter.Iterator) bool {
				points = append(points, readPoint(it))
				return it.Error == nil
			})
		default:
			it.Skip()
		}
		return it.Error == nil
	})
	return points
}

// readPoint parses [seconds, "value"].
func readPoint(it *jsoniter.Iterator) point {
	var p point
	i := 0
	it.ReadArrayCB(func(it *jsoniter.Iterator) bool {
		switch i++; i {
		case 1:
			p.at = time.UnixMilli(int64(math.Round(it.ReadFloat64() * 1000)))
		case 2:
			v, err := strconv.ParseFloat(string(it.ReadStringAsSlice()), 64)
			if err != nil {
				it.ReportError("reading a point", "its value is no number")
			}
			p.v = v
		default:
			it.ReportError("reading a point", "want a time and a value")
		}
		return it.Error == nil
	})
	if i != 2 && it.Error == nil {
		it.ReportError("reading a point", "want a time and a value")
	}
	return p
}
