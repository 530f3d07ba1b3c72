package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// connections is the number of senders, each with a connection of its own.
const connections = 64

// A delivery is the result of sending bodies.
type delivery struct {
	began, ended time.Time
	accepted     int             // bodies that were answered with 200
	refused      int             // bodies that were answered with 503
	again        [][]byte        // those bodies
	took         []time.Duration // from the time at which a body was due to its answer, sorted
}

func (d delivery) perSecond() float64 { return float64(d.accepted) / d.ended.Sub(d.began).Seconds() }

func (d delivery) p99() time.Duration { return d.took[len(d.took)*99/100] }

// send posts each body once. With a rate it sends so many a second, and counts the time that a body
// waited for a sender. An answer other than 200 and 503 is an error.
func (r *runner) send(url string, bodies [][]byte, rate float64) delivery {
	runtime.GC() // the garbage of earlier bodies is no part of this
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	ctx, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	d := delivery{took: make([]time.Duration, len(bodies)), began: time.Now()}
	var next, accepted atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for n := next.Add(1) - 1; int(n) < len(bodies) && ctx.Err() == nil; n = next.Add(1) - 1 {
				due := time.Now()
				if rate > 0 {
					due = d.began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
					<-time.After(time.Until(due))
				}
				resp, err := client.Post(url, "application/json", bytes.NewReader(bodies[n]))
				if err != nil {
					stop(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
				resp.Body.Close()
				d.took[n] = time.Since(due)
				switch resp.StatusCode {
				case http.StatusOK:
					accepted.Add(1)
				case http.StatusServiceUnavailable:
					mu.Lock()
					d.again = append(d.again, bodies[n])
					mu.Unlock()
				default:
					stop(fmt.Errorf("%s answered %s", url, resp.Status))
				}
			}
		})
	}
	group.Wait()
	check(context.Cause(ctx))
	d.ended, d.accepted, d.refused = time.Now(), int(accepted.Load()), len(d.again)
	slices.Sort(d.took)
	return d
}
