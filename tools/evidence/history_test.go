package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/scrape"
)

// The fleet's size and the length of its history.
const (
	workers  = 64
	enough   = 100_000 // series
	interval = 15 * time.Second
	healthy  = 65 * time.Minute // before the fault
	sick     = 10 * time.Minute
	brief    = 15 * time.Minute // of the day and of the week before, at the same time of day
)

// A history writes samples into a Prometheus's storage: the fleet's hour into the head, where
// Prometheus keeps the newest hours, and the days before as blocks.
type history struct {
	spans  []*span
	pools  int
	series map[string][]labels.Labels // by a page's line: its labels in each pool
	total  int
}

// A span is a part of the simulation that is written with an offset into the past.
type span struct {
	begin  func() storage.Appender
	end    func() error
	app    storage.Appender
	offset time.Duration
	from   time.Time
	refs   map[string][]storage.SeriesRef
}

func newHistory(dir string, start time.Time) (*history, error) {
	ctx, quiet := context.Background(), slog.New(slog.DiscardHandler)
	h := &history{series: map[string][]labels.Labels{}}
	head, err := tsdb.Open(dir, quiet, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, fmt.Errorf("opening the storage: %w", err)
	}
	h.spans = append(h.spans, &span{begin: func() storage.Appender { return head.Appender(ctx) }, end: head.Close, from: start})
	for _, days := range []int{1, 7} {
		w, err := tsdb.NewBlockWriter(quiet, dir, (2 * time.Hour).Milliseconds())
		if err != nil {
			return nil, fmt.Errorf("writing a block: %w", err)
		}
		h.spans = append(h.spans, &span{
			begin: func() storage.Appender { return w.Appender(ctx) },
			end: func() error {
				_, err := w.Flush(ctx)
				return errors.Join(err, w.Close())
			},
			offset: time.Duration(days) * 24 * time.Hour, from: start.Add(healthy + sick - brief),
		})
	}
	for _, s := range h.spans {
		s.app, s.refs = s.begin(), map[string][]storage.SeriesRef{}
	}
	return h, nil
}

// take writes one page of the fleet under the names of every pool.
func (h *history) take(page []byte, at time.Time) error {
	parser := textparse.NewPromParser(page, labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a page: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		text, _, value := parser.Series()
		key := string(text)
		all, known := h.series[key]
		if !known {
			var ls labels.Labels
			parser.Labels(&ls)
			for i := range h.pools {
				all = append(all, renamed(ls, i))
			}
			h.series[key] = all
			h.total += h.pools
		}
		if err := h.add(key, all, at, value); err != nil {
			return err
		}
	}
}

func (h *history) add(key string, all []labels.Labels, at time.Time, value float64) error {
	for _, s := range h.spans {
		if at.Before(s.from) {
			continue
		}
		refs := s.refs[key]
		if refs == nil {
			refs = make([]storage.SeriesRef, len(all))
			s.refs[key] = refs
		}
		for i, ls := range all {
			ref, err := s.app.Append(refs[i], ls, at.Add(-s.offset).UnixMilli(), value)
			if err != nil {
				return fmt.Errorf("appending %s: %w", ls, err)
			}
			refs[i] = ref
		}
	}
	return nil
}

// commit ends a round of scrapes.
func (h *history) commit() error {
	for _, s := range h.spans {
		if err := s.app.Commit(); err != nil {
			return fmt.Errorf("committing: %w", err)
		}
		s.app = s.begin()
	}
	return nil
}

func (h *history) end() error {
	for _, s := range h.spans {
		_ = s.app.Rollback() // it is empty
		if err := s.end(); err != nil {
			return fmt.Errorf("ending a span: %w", err)
		}
	}
	return nil
}

// renamed gives a series the names of another pool: workload, nodes and addresses. The first pool
// keeps its names.
func renamed(ls labels.Labels, pool int) labels.Labels {
	if pool == 0 {
		return ls
	}
	names := strings.NewReplacer("vllm-llama", fmt.Sprintf("vllm-other%d", pool), "gpu-node-", fmt.Sprintf("gpu-node-%d0", pool), "10.42.",
		fmt.Sprintf("10.%d.", 42+pool),
		"kube-state-metrics:", fmt.Sprintf("kube-state-metrics-%d:", pool), "llama-70b", fmt.Sprintf("other-%d", pool))
	b := labels.NewBuilder(ls)
	ls.Range(func(l labels.Label) { b.Set(l.Name, names.Replace(l.Value)) })
	return b.Labels()
}

// record simulates the fleet and writes its samples to a storage's directory. It returns the end of
// the simulation and the number of series.
func record(dir string, start time.Time) (time.Time, int, error) {
	s, err := drill.New(lab.KVExhaustion, 7)
	if err != nil {
		return time.Time{}, 0, err
	}
	s = s.Resize(workers)
	s.Config.Start = start
	s.Faults[0].At = healthy
	fleet, err := s.Build()
	if err != nil {
		return time.Time{}, 0, err
	}
	h, err := newHistory(filepath.Clean(dir), start)
	if err != nil {
		return time.Time{}, 0, err
	}
	handler := scrape.Handler(fleet, scrape.Config{TargetLabels: true})
	end := start.Add(healthy + sick)
	for now := start.Add(interval); !now.After(end); now = now.Add(interval) {
		fleet.Advance(now)
		pages := scraped(handler, fleet.Targets())
		if h.pools == 0 {
			h.pools = 1 + enough/max(1, lines(pages))
		}
		for _, page := range pages {
			if err := h.take(page, now); err != nil {
				return time.Time{}, 0, err
			}
		}
		if err := h.commit(); err != nil {
			return time.Time{}, 0, err
		}
	}
	return end, h.total, h.end()
}

func scraped(handler http.Handler, targets []lab.Target) [][]byte {
	var out [][]byte
	for _, t := range targets {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, t.Path, nil))
		if rec.Code == http.StatusOK {
			out = append(out, rec.Body.Bytes())
		}
	}
	return out
}

// lines counts the series of pages.
func lines(pages [][]byte) int {
	n := 0
	for _, p := range pages {
		for l := range strings.Lines(string(p)) {
			if !strings.HasPrefix(l, "#") {
				n++
			}
		}
	}
	return n
}
