package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// crowd returns a view with some open and some resolved incidents, the last of which are the most
// severe, and an action of each.
func crowd(open, resolved int) *fakeView {
	v := &fakeView{halted: map[string]state.Halt{}}
	for i := range open + resolved {
		in := state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-01K%023d", i)), Number: i + 1, Cluster: "default",
			Status: state.StatusOpen, Severity: state.Warning,
			Title: fmt.Sprintf("Trouble %d of pool", i+1), OpenedAt: at(float64(i) - 5000), StartedAt: at(float64(i) - 5000)}
		if i < 10 {
			in.Severity = state.Critical
		}
		if i >= open {
			in.Status, in.ResolvedAt = state.StatusResolved, now
		}
		a := state.Action{ID: state.ActionID(fmt.Sprintf("ACT-01K%023d", i)), Incident: in.ID, Change: fmt.Sprintf("change %d.", i+1),
			State: state.Proposed}
		if i == 7 {
			a.State = state.AwaitingApproval
		}
		in.Actions = []state.ActionID{a.ID}
		v.incidents, v.actions = append(v.incidents, in), append(v.actions, a)
	}
	return v
}

func TestFrontPageListsFiftyAtATime(t *testing.T) {
	h := handler(t, crowd(3000, 120), nil)
	res, body := get(t, h, "/", nil)
	if n := strings.Count(body, `data-testid="incident-row"`); res.StatusCode != http.StatusOK || n != 100 || len(body) > 150_000 {
		t.Errorf("%d rows in %d bytes", n, len(body))
	}
	contains(t, body, `data-testid="open-count">3000<`, "1–50 of 3000", `href="/?page=2"`, `data-testid="resolved-count">120<`, "1–50 of 120", `href="/?resolved=2"`, "needs approval")
	if strings.Index(body, "Trouble 10 of") > strings.Index(body, "Trouble 3000 of") {
		t.Error("a newer warning stands before a critical incident")
	}
	_, body = get(t, h, "/?page=60&resolved=2", nil)
	contains(t, body, "2951–3000 of 3000", `href="/?page=59&amp;resolved=2"`, "51–100 of 120", `href="/?page=60&amp;resolved=3"`)
	if strings.Contains(body, "page=61") {
		t.Error("the last page has one after it")
	}
	for _, gone := range []string{"/?page=99999", "/?page=61"} {
		_, body = get(t, h, gone, nil)
		contains(t, body, "2951–3000 of 3000")
	}
	_, body = get(t, h, "/?page=-3&resolved=x", nil)
	contains(t, body, "1–50 of 3000", "1–50 of 120")
}

func TestActionsPageListsFiftyAtATime(t *testing.T) {
	h := handler(t, crowd(100, 20), nil)
	_, body := get(t, h, "/actions", nil)
	if n := strings.Count(body, `data-testid="action"`); n != 50 {
		t.Errorf("%d actions on a page", n)
	}
	contains(t, body, "1–50 of 120", `href="/actions?page=2"`)
	if strings.Index(body, "change 8.") > strings.Index(body, "change 120.") {
		t.Error("what waits for a person does not come first")
	}
	_, body = get(t, h, "/actions?page=3", nil)
	contains(t, body, "101–120 of 120", "change 1.")
}

func TestShortListsHaveNoPager(t *testing.T) {
	_, body := get(t, handler(t, crowd(3, 2), nil), "/", nil)
	if strings.Contains(body, `data-testid="pager"`) {
		t.Error("five incidents have pages to turn")
	}
}

func TestUnchangedPageIsNotSentAgain(t *testing.T) {
	v, clock := fixture(), &stopped{now}
	h := handler(t, v, func(c *Config) { c.Clock = clock })
	ask := func(path, etag string) (*http.Response, string) {
		return get(t, h, path, func(r *http.Request) {
			r.Header.Set(PartialHeader, "1")
			r.Header.Set("If-None-Match", etag)
		})
	}
	for _, path := range []string{"/", "/actions", "/incidents/" + string(v.incidents[1].ID)} {
		clock.at = now
		first, _ := ask(path, "")
		_, full := get(t, h, path, nil)
		etag := first.Header.Get("ETag")
		contains(t, full, `data-etag="`+strings.ReplaceAll(etag, `"`, "&#34;")+`"`)
		clock.at = now.Add(90 * time.Second)
		again, body := ask(path, etag)
		if again.StatusCode != http.StatusNotModified || body != "" || again.Header.Get("X-Paramedic-Now") != "2026-11-21T03:13:30Z" {
			t.Errorf("%s: nothing changed but the time, and the answer is %d with %d bytes", path, again.StatusCode, len(body))
		}
		v.halted["default"] = state.Halt{At: now, Actor: state.Actor{ID: "ada"}}
		if changed, body := ask(path, etag); changed.StatusCode != http.StatusOK || !strings.Contains(body, "First aid is halted") {
			t.Errorf("%s: after a halt the answer is %d", path, changed.StatusCode)
		}
		delete(v.halted, "default")
	}
}

// A payload that Alertmanager cut has no alert to name.
func TestSetAsideAlertsReadAsSentences(t *testing.T) {
	h := handler(t, &fakeView{}, func(c *Config) {
		c.Intake = func() Intake {
			return Intake{Skipped: 1, Aside: []Aside{{Text: "left out", Receiver: "llm", Count: 1, Last: now},
				{Alert: "Bad", Text: "no labels", Count: 3, Last: now}}}
		}
	})
	_, body := get(t, h, "/", nil)
	contains(t, body, "skipped 1 input that", "<li>left out <", "receiver llm, once, last ", "<li><b>Bad</b>: no labels <", ">3 times, last ")
}
