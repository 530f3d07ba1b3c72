package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

// crowd returns a world with n incidents, the newest last. Every fifth is resolved.
func crowd(n int) *hooktest.World {
	w := hooktest.NewWorld()
	for i := range n {
		in := state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-01K%023d", i)), Number: i + 1, Cluster: "prod", Status: state.StatusOpen,
			OpenedAt: hooktest.Start.Add(time.Duration(i) * time.Second)}
		if i%5 == 0 {
			in.Status, in.ResolvedAt = state.StatusResolved, hooktest.Start.Add(time.Hour)
		}
		w.Incidents[in.ID] = in
	}
	return w
}

// page requests one page of a listing.
func page(t *testing.T, s *webhook.Server, q url.Values) (numbers []int, next *string) {
	t.Helper()
	var out struct {
		Incidents []struct{ Number int }
		Next      *string
	}
	got := hooktest.Do(s, "GET", "/api/v1/incidents?"+q.Encode(), "")
	hooktest.Expect(t, got, 200)
	if err := json.Unmarshal(got.Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	for _, in := range out.Incidents {
		numbers = append(numbers, in.Number)
	}
	return numbers, out.Next
}

func TestListingHasPagesOfFifty(t *testing.T) {
	w := crowd(120)
	s, _ := hooktest.Serve(t, w, nil)
	first, next := page(t, s, url.Values{})
	if len(first) != 50 || first[0] != 120 || first[49] != 71 || next == nil {
		t.Fatalf("the first page has %d incidents, %v, next %v", len(first), first, next)
	}
	w.Incidents["INC-01KZZZ"] = state.Incident{ID: "INC-01KZZZ", Number: 500, Cluster: "prod", OpenedAt: hooktest.Start.Add(time.Hour)}
	second, next := page(t, s, url.Values{"cursor": {*next}})
	third, last := page(t, s, url.Values{"cursor": {*next}})
	if len(second) != 50 || second[0] != 70 || len(third) != 20 || third[19] != 1 || last != nil {
		t.Errorf("an incident that opened meanwhile moves the pages: %v, then %v, next %v", second, third, last)
	}
}

func TestFiltersApplyBeforePaging(t *testing.T) {
	s, _ := hooktest.Serve(t, crowd(120), nil)
	resolved, next := page(t, s, url.Values{"status": {"resolved"}, "limit": {"20"}})
	if len(resolved) != 20 || !slices.Equal(resolved[:3], []int{116, 111, 106}) || next == nil {
		t.Fatalf("resolved: %v, next %v", resolved, next)
	}
	rest, next := page(t, s, url.Values{"status": {"resolved"}, "limit": {"20"}, "cursor": {*next}})
	if !slices.Equal(rest, []int{16, 11, 6, 1}) || next != nil {
		t.Errorf("the rest of them: %v, next %v", rest, next)
	}
	if all, _ := page(t, s, url.Values{"limit": {"500"}, "status": {"open,resolved"}}); len(all) != 120 {
		t.Errorf("a page of 500 has %d of 120", len(all))
	}
}

func TestInvalidPageParametersAreRefused(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), nil)
	for _, path := range []string{"/api/v1/incidents", "/api/v1/actions"} {
		for _, limit := range []string{"0", "-1", "501", "many", "1e2"} {
			hooktest.Expect(t, hooktest.Do(s, "GET", path+"?limit="+limit, ""), 400, "from 1 to 500")
		}
		for _, cursor := range []string{"x", "djF8", "MTIz", "%00"} {
			hooktest.Expect(t, hooktest.Do(s, "GET", path+"?cursor="+cursor, ""), 400, "next", "omit it")
		}
	}
}

// A misspelt filter would read as an empty list.
func TestUnknownStatesAreRefused(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), nil)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents?status=opne", ""), 400, "opne", "open, acked")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/actions?state=aproved", ""), 400, "aproved", "proposed, awaiting_approval")
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/actions?state=approved", ""), 200)
}

func TestActionListingIsPaged(t *testing.T) {
	w := hooktest.NewWorld()
	for i := range 60 {
		id := state.ActionID(fmt.Sprintf("ACT-01K%023d", i))
		w.Actions[id] = state.Action{ID: id, State: state.Proposed, Change: fmt.Sprint(i)}
	}
	s, _ := hooktest.Serve(t, w, nil)
	var seen []string
	for cursor := ""; ; {
		var out struct {
			Actions []struct{ Change string }
			Next    *string
		}
		got := hooktest.Do(s, "GET", "/api/v1/actions?state=proposed&limit=25&cursor="+url.QueryEscape(cursor), "")
		hooktest.Expect(t, got, 200)
		if err := json.Unmarshal(got.Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		for _, a := range out.Actions {
			seen = append(seen, a.Change)
		}
		if out.Next == nil {
			break
		}
		cursor = *out.Next
	}
	if len(seen) != 60 || seen[0] != "59" || seen[59] != "0" {
		t.Errorf("%d actions, %v", len(seen), seen)
	}
}

// A misspelt filter is refused: without it the answer would have everything.
func TestUnknownParametersAreRefused(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), nil)
	for path, says := range map[string]string{
		"/api/v1/incidents?staus=open":              `\"staus\": /api/v1/incidents takes status, cause, cluster, limit, cursor`,
		"/api/v1/incidents?status=open&severity=x":  `\"severity\"`,
		"/api/v1/actions?status=awaiting_approval":  `\"status\": /api/v1/actions takes state, limit, cursor`,
		"/api/v1/stats?from=30d":                    `\"from\": /api/v1/stats takes since`,
		"/api/v1/incidents?cause=%zz&status=open":   "the query is not valid",
		"/api/v1/incidents?cluster=prod;limit=1000": "the query is not valid",
	} {
		hooktest.Expect(t, hooktest.Do(s, "GET", path, ""), 400, says)
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents?status=open&cause=kv_exhaustion&cluster=prod&limit=1&cursor=", ""), 200, `"number":42`)
}
