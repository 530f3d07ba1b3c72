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
	// rayDeadline is as short as that of custom resources, and for the same reason: what it adds is
	// worth less than all the rest.
	rayDeadline = customDeadline
	// rayFresh is how long an answer is used again, one that did not come too: a storm of incidents
	// is no storm of questions.
	rayFresh = 15 * time.Second
	// rayKept is how long an answer stands in for one that does not come: while the head is away
	// nothing moves.
	rayKept = time.Hour
)

var errNoHead = errors.New("its head has no address")

// rayReader asks the heads of Ray clusters where their engines are. It is safe for concurrent use.
type rayReader struct {
	client *ray.Client
	mu     sync.Mutex
	known  map[object]rayAnswer
	asking map[object]chan struct{} // closed once the question that is under way has its answer
}

// A rayAnswer is what a head said last.
type rayAnswer struct {
	asked   time.Time
	err     error     // of the last question
	at      time.Time // of what is known; zero: nothing is
	engines []ray.Engine
}

func newRayReader() *rayReader {
	return &rayReader{client: ray.New(), known: map[object]rayAnswer{}, asking: map[object]chan struct{}{}}
}

// read asks the heads, by the addresses of their dashboards, and notes which did not say.
func (r *rayReader) read(ctx context.Context, heads map[object]string, now time.Time) (map[object]rayAnswer, []state.Missing) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers := map[object]rayAnswer{}
	for cluster, dashboard := range heads {
		wg.Go(func() {
			a := r.ask(ctx, cluster, dashboard, now)
			mu.Lock()
			defer mu.Unlock()
			answers[cluster] = a
		})
	}
	wg.Wait()
	r.forget(now)

	var notes []state.Missing
	for cluster, a := range answers {
		if a.at.IsZero() {
			delete(answers, cluster)
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
	return answers, notes
}

// forget drops the clusters that are gone.
func (r *rayReader) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(_ object, a rayAnswer) bool { return now.Sub(a.asked) > rayKept })
}

// ask asks one head, unless that was done a moment ago. Where another gathering asks it already,
// one answer serves both.
func (r *rayReader) ask(ctx context.Context, cluster object, dashboard string, now time.Time) rayAnswer {
	limited, cancel := context.WithTimeout(ctx, rayDeadline)
	defer cancel()
	for {
		r.mu.Lock()
		a, another := r.known[cluster], r.asking[cluster]
		fresh := !a.asked.IsZero() && now.Sub(a.asked).Abs() < rayFresh
		if !fresh && another == nil {
			r.asking[cluster] = make(chan struct{})
		}
		r.mu.Unlock()
		if fresh {
			return a
		}
		if another == nil {
			a = a.next(limited, r.client, dashboard, now)
			r.answered(cluster, a, a.err == nil || ctx.Err() == nil) // what a gathering had no time for says nothing of the head
			return a
		}
		select {
		case <-another:
		case <-limited.Done():
			return a.failed(limited.Err(), now)
		}
	}
}

// answered ends a question, with an answer that may be used again or not.
func (r *rayReader) answered(cluster object, a rayAnswer, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if again {
		r.known[cluster] = a
	}
	close(r.asking[cluster])
	delete(r.asking, cluster)
}

// next is what the head says now, or said last.
func (a rayAnswer) next(ctx context.Context, client *ray.Client, dashboard string, now time.Time) rayAnswer {
	engines, err := []ray.Engine(nil), errNoHead
	if dashboard != "" {
		engines, err = client.Engines(ctx, dashboard)
	}
	if err != nil {
		return a.failed(err, now)
	}
	return rayAnswer{asked: now, at: now, engines: engines}
}

// failed is what it said last, as long as that holds.
func (a rayAnswer) failed(err error, now time.Time) rayAnswer {
	if now.Sub(a.at) > rayKept {
		a.at, a.engines = time.Time{}, nil
	}
	a.asked, a.err = now, err
	return a
}
