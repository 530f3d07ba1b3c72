package web

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// A follower's pages say how old its copy is. While the copy is complete, the text does not change
// from second to second: each change would replace the page.
func TestFollowersPagesShowTheirAge(t *testing.T) {
	var r state.Replica
	h := handler(t, &fakeView{}, func(c *Config) { c.Replica = func() state.Replica { return r } })
	partial := func() (etag, page string) {
		res, page := get(t, h, "/", func(r *http.Request) { r.Header.Set(PartialHeader, "1") })
		return res.Header.Get("ETag"), page
	}
	show := func(now state.Replica, want string) string {
		t.Helper()
		r = now
		etag, page := partial()
		if got := strings.Contains(page, `data-testid="follower"`); got != (want != "") || !strings.Contains(page, want) {
			t.Errorf("%+v is shown as\n%s", now, page)
		}
		return etag
	}
	show(state.Replica{Active: true}, "")
	show(state.Replica{}, "not complete yet")
	one := show(state.Replica{AsOf: now.Add(-time.Second)}, "at most 10 s old")
	if other := show(state.Replica{AsOf: now.Add(-9 * time.Second), Inputs: 1}, "at most 10 s old"); one != other {
		t.Error("a complete copy changes the page every second")
	}
	show(state.Replica{AsOf: now.Add(-11 * time.Minute), Inputs: 7}, "last complete")
	show(state.Replica{AsOf: now.Add(-11 * time.Minute), Inputs: 7}, "inputs that it lacks: 7")
}

// Until the state is loaded, a page must not look as if nothing were wrong.
func TestPagesShowThatStateIsLoading(t *testing.T) {
	loading := errors.New("partition 0 of 4 is not loaded yet")
	h := handler(t, &fakeView{}, func(c *Config) { c.Loading = func() error { return loading } })
	if _, page := get(t, h, "/", nil); !strings.Contains(page, `data-testid="loading"`) || !strings.Contains(page, "partition 0 of 4") ||
		strings.Contains(page, "All quiet") {
		t.Errorf("the page while the state is loaded:\n%s", page)
	}
	loading = nil
	if _, page := get(t, h, "/", nil); strings.Contains(page, `data-testid="loading"`) || !strings.Contains(page, "All quiet") {
		t.Errorf("the page after the load:\n%s", page)
	}
}
