package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/ray"
	"paramedic/state"
)

const (
	// rayDeadline is as short as that of custom resources, and for the same reason: what it adds is worth less than all the rest.
	rayDeadline = customDeadline
	// rayFresh is how long an answer is used again, one that did not come too: a storm of incidents is no storm of questions.
	rayFresh = 15 * time.Second
	// rayKept is how long an answer stands in for one that does not come: while the head is away nothing moves.
	rayKept = time.Hour
)

var errNoHead = errors.New("its head has no address")

// rayReader asks the heads of Ray clusters where their engines are. It is safe for concurrent use.
type rayReader struct {
	client *ray.Client
	mu     sync.Mutex
	known  map[object]rayAnswer
}

// A rayAnswer is what a head said last.
type rayAnswer struct {
	asked   time.Time
	err     error     // of the last question
	at      time.Time // of what is known; zero: nothing is
	engines []ray.Engine
}

func newRayReader() *rayReader { return &rayReader{client: ray.New(), known: map[object]rayAnswer{}} }

// read asks the heads, by the addresses of their dashboards, and notes which did not say.
func (r *rayReader) read(ctx context.Context, heads map[object]string, now time.Time) (map[object]rayAnswer, []state.Missing) {
	ctx, cancel := context.WithTimeout(ctx, rayDeadline)
	defer cancel()
	var wg sync.WaitGroup
	for cluster, dashboard := range heads {
		wg.Go(func() { r.ask(ctx, cluster, dashboard, now) })
	}
	wg.Wait()

	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(_ object, a rayAnswer) bool { return now.Sub(a.asked) > rayKept }) // clusters that are gone
	out := map[object]rayAnswer{}
	var notes []state.Missing
	for cluster := range heads {
		a := r.known[cluster]
		if !a.at.IsZero() {
			out[cluster] = a
		}
		if a.err == nil {
			continue
		}
		instead := "which of its pods run one engine is judged by their objects alone"
		if !a.at.IsZero() {
			instead = "which of its pods run one engine is as it was at " + a.at.UTC().Format(time.TimeOnly) + " UTC"
		}
		notes = append(notes, state.Missing{Signal: "topology", Reason: enrich.Explain("Ray of "+cluster.namespace+"/"+cluster.name, a.err) + "; " + instead})
	}
	slices.SortFunc(notes, func(a, b state.Missing) int { return cmp.Compare(a.Reason, b.Reason) })
	return out, notes
}

// ask asks one head, unless that was done a moment ago.
func (r *rayReader) ask(ctx context.Context, cluster object, dashboard string, now time.Time) {
	r.mu.Lock()
	a := r.known[cluster]
	r.mu.Unlock()
	if !a.asked.IsZero() && now.Sub(a.asked).Abs() < rayFresh {
		return
	}
	engines, err := []ray.Engine(nil), errNoHead
	if dashboard != "" {
		engines, err = r.client.Engines(ctx, dashboard)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return // nobody waits any more, which says nothing of the head
	case err == nil:
		a.at, a.engines = now, engines
	case now.Sub(a.at) > rayKept:
		a.at, a.engines = time.Time{}, nil
	}
	a.asked, a.err = now, err
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[cluster] = a
}
