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
	// rayDeadline is short for the same reason as that of custom resources.
	rayDeadline = customDeadline
	// rayFresh is the time for which an answer is used again, even a failed one. So many incidents
	// at once do not send many requests.
	rayFresh = 15 * time.Second
	// rayKept is the time for which an answer replaces a failed one, because nothing moves while
	// the head is down.
	rayKept = time.Hour
)

var errNoHead = errors.New("its head has no address")

// rayReader asks the heads of Ray clusters where their engines are. It is safe for concurrent use.
type rayReader struct {
	client *ray.Client
	mu     sync.Mutex
	known  map[object]rayAnswer
	asking map[object]chan struct{} // closed when the request in flight has its answer
}

// A rayAnswer is the last answer of a head.
type rayAnswer struct {
	asked   time.Time
	err     error     // of the last request
	at      time.Time // the time of the last success; zero: none
	engines []ray.Engine
}

func newRayReader() *rayReader {
	return &rayReader{client: ray.New(), known: map[object]rayAnswer{}, asking: map[object]chan struct{}{}}
}

// read asks the heads at their dashboards' addresses, and returns notes for those that failed.
func (r *rayReader) read(
	ctx context.Context, heads map[object]string, now time.Time,
) (map[object]rayAnswer, []state.Missing) {
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
		instead := "the bot groups its pods by their Kubernetes objects alone"
		if !a.at.IsZero() {
			instead = "the bot groups its pods as of " + a.at.UTC().Format(time.TimeOnly) + " UTC"
		}
		notes = append(notes, state.Missing{Signal: "topology",
			Reason: enrich.Explain("Ray of "+cluster.namespace+"/"+cluster.name, a.err) + "; " + instead})
	}
	slices.SortFunc(notes, func(a, b state.Missing) int { return cmp.Compare(a.Reason, b.Reason) })
	return answers, notes
}

// forget drops the clusters that were not asked for a long time.
func (r *rayReader) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(_ object, a rayAnswer) bool { return now.Sub(a.asked) > rayKept })
}

// ask asks one head, unless there is a recent answer. If another gathering is asking it already,
// both use the same answer.
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
			r.answered(cluster, a, a.err == nil ||
				ctx.Err() == nil) // the end of the gathering's own time is not a failure of the head
			return a
		}
		select {
		case <-another:
		case <-limited.Done():
			return a.failed(limited.Err(), now)
		}
	}
}

// answered ends a request and keeps its answer if again is true.
func (r *rayReader) answered(cluster object, a rayAnswer, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if again {
		r.known[cluster] = a
	}
	close(r.asking[cluster])
	delete(r.asking, cluster)
}

// next returns the head's current answer, or the last one if it fails.
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

// failed returns the last answer with the error, without its engines if it is too old.
func (a rayAnswer) failed(err error, now time.Time) rayAnswer {
	if now.Sub(a.at) > rayKept {
		a.at, a.engines = time.Time{}, nil
	}
	a.asked, a.err = now, err
	return a
}
