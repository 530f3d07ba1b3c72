package pagerdutytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of an event (https://developer.pagerduty.com/docs/events-api-v2-overview).
const (
	maxBody    = 512 << 10
	maxSummary = 1024
	maxKey     = 255
	maxNote    = 2000
)

type event struct {
	RoutingKey string `json:"routing_key"`
	Action     string `json:"event_action"`
	Key        string `json:"dedup_key"`
	Client     string `json:"client"`
	ClientURL  string `json:"client_url"`
	Images     []any  `json:"images"`
	Links      []map[string]string
	Payload    *struct {
		Summary, Source, Severity, Timestamp, Component, Group, Class string
		Details                                                       map[string]any `json:"custom_details"`
	}
}

// check returns what is wrong with an event.
func (e *event) check() []string {
	var errs []string
	bad := func(format string, args ...any) { errs = append(errs, fmt.Sprintf(format, args...)) }
	if len(e.RoutingKey) != 32 {
		bad("routing_key must be 32 characters")
	}
	if utf8.RuneCountInString(e.Key) > maxKey {
		bad("dedup_key is longer than %d", maxKey)
	}
	if !slices.Contains([]string{"trigger", "acknowledge", "resolve"}, e.Action) {
		bad("event_action %q", e.Action)
	}
	if e.Action != "trigger" {
		if e.Key == "" {
			bad("dedup_key is missing")
		}
		return errs
	}
	if e.Payload == nil {
		return append(errs, "payload is missing")
	}
	errs = append(errs, checkSummary(e.Payload.Summary)...)
	if e.Payload.Source == "" {
		bad("source is missing")
	}
	if !slices.Contains([]string{"critical", "error", "warning", "info"}, e.Payload.Severity) {
		bad("severity %q", e.Payload.Severity)
	}
	return slices.Concat(errs, checkTimestamp(e.Payload.Timestamp), checkLinks(e.Links))
}

func checkSummary(s string) []string {
	if n := utf8.RuneCountInString(s); n == 0 || n > maxSummary {
		return []string{fmt.Sprintf("summary of %d characters", n)}
	}
	return nil
}

func checkTimestamp(s string) []string {
	if _, err := time.Parse(time.RFC3339, s); s != "" && err != nil {
		return []string{fmt.Sprintf("timestamp %q", s)}
	}
	return nil
}

func checkLinks(links []map[string]string) []string {
	if slices.ContainsFunc(links, func(l map[string]string) bool { return l["href"] == "" }) {
		return []string{"a link without href"}
	}
	return nil
}

func (s *Server) enqueue(w http.ResponseWriter, r *http.Request) {
	var e event
	taken := map[string]any{"status": "success", "message": "Event processed"}
	if s.take(w, r, &e, func() (string, []string) { taken["dedup_key"] = e.Key; return e.RoutingKey, e.check() }, taken) {
		s.apply(&e)
		answer(w, http.StatusAccepted, taken)
	}
}

// A change is an event that pages no person
// (https://developer.pagerduty.com/docs/events-api-v2/send-change-events).
type change struct {
	RoutingKey string `json:"routing_key"`
	Images     []any  `json:"images"`
	Links      []map[string]string
	Payload    *struct {
		Summary, Source, Timestamp string
		Details                    map[string]any `json:"custom_details"`
	}
}

// check returns what is wrong with a change.
func (c *change) check() []string {
	switch {
	case len(c.RoutingKey) != 32:
		return []string{"routing_key must be 32 characters"}
	case strings.HasPrefix(c.RoutingKey, "R"):
		return []string{"routing_key is of an orchestration, which takes no changes"}
	case c.Payload == nil:
		return []string{"payload is missing"}
	}
	return slices.Concat(checkSummary(c.Payload.Summary), checkTimestamp(c.Payload.Timestamp), checkLinks(c.Links))
}

func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	var c change
	taken := map[string]any{"status": "success", "message": "Change event processed"}
	if s.take(w, r, &c, func() (string, []string) { return c.RoutingKey, c.check() }, taken) {
		s.mu.Lock()
		s.changes = append(s.changes, c.Payload.Summary)
		s.mu.Unlock()
		answer(w, http.StatusAccepted, taken)
	}
}

// take reads an event and checks the rules of both kinds. It returns false if it has answered.
func (s *Server) take(w http.ResponseWriter, r *http.Request, into any, check func() (key string, errs []string), taken any) bool {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return false // the client went away
	}
	if len(body) > maxBody {
		s.Fail("an event of more than %d bytes", maxBody)
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		s.Fail("an event that does not decode: %v", err)
		refuse(w, err.Error())
		return false
	}
	key, errs := check()
	if len(errs) > 0 {
		s.Fail("%s: %v", r.URL.Path, errs)
		refuse(w, errs...)
		return false
	}
	if s.opt.RoutingKey != "" && key != s.opt.RoutingKey {
		s.Fail("%s: the routing key is not known", r.URL.Path) // PagerDuty accepts it, and drops it
		answer(w, http.StatusAccepted, taken)
		return false
	}
	if s.tooFast() {
		w.Header().Set("Retry-After", "30")
		http.Error(w, `{"status":"throttle exceeded"}`, http.StatusTooManyRequests)
		return false
	}
	return true
}

func (s *Server) tooFast() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opt.Now()
	s.times = slices.DeleteFunc(s.times, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if s.opt.PerMinute > 0 && len(s.times) >= s.opt.PerMinute {
		s.limited++
		return true
	}
	s.times = append(s.times, now)
	return false
}

// apply changes the incidents as PagerDuty does.
func (s *Server) apply(e *event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e.Action+" "+e.Key)
	var open *Incident
	for _, in := range s.incidents {
		if in.Key == e.Key && in.Status != "resolved" {
			open = in
		}
	}
	switch {
	case e.Action == "trigger" && open != nil && e.Key != "":
		open.Triggers++
	case e.Action == "trigger":
		s.incidents = append(s.incidents, &Incident{
			ID: fmt.Sprintf("P%d", len(s.incidents)+1), Key: e.Key, Status: "triggered", Severity: e.Payload.Severity,
			Summary: e.Payload.Summary, Details: e.Payload.Details, Links: e.Links, Triggers: 1,
		})
	case open == nil:
		s.dropped = append(s.dropped, e.Action+" "+e.Key) // PagerDuty accepts it and does nothing
	case e.Action == "acknowledge":
		open.Status = "acknowledged"
	case e.Action == "resolve":
		open.Status = "resolved"
	}
}

// rest wraps a handler of the REST API with the checks that apply to all of it.
func (s *Server) rest(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		if s.opt.Token != "" && token != "Token token="+s.opt.Token || token == "" || token == "Token token=" {
			s.Fail("%s %s: the token is wrong", r.Method, r.URL.Path)
			answer(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": 2006, "message": "Unauthorized"}})
			return
		}
		if s.opt.ReadOnly && r.Method != http.MethodGet {
			s.Fail("%s %s: the token may read only", r.Method, r.URL.Path)
			answer(w, http.StatusForbidden, map[string]any{"error": map[string]any{"code": 2010, "message": "Access Denied"}})
			return
		}
		w.Header().Set("ratelimit-limit", "960")
		next(w, r)
	}
}

// listUsers finds users by a part of their address.
func (s *Server) listUsers(w http.ResponseWriter, r *http.Request) {
	list := []map[string]any{}
	for i, mail := range s.opt.From {
		if strings.Contains(mail, r.URL.Query().Get("query")) {
			list = append(list, map[string]any{"id": fmt.Sprintf("PUSER%d", i), "type": "user", "email": mail})
		}
	}
	answer(w, http.StatusOK, map[string]any{"users": list, "limit": 25, "offset": 0, "more": false})
}

// listIncidents finds incidents by their key, in any status.
func (s *Server) listIncidents(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("incident_key")
	if key == "" {
		s.Fail("a search for incidents without incident_key: %s", r.URL.RawQuery) // it would read the whole account page by page
	}
	list := []map[string]any{}
	for _, in := range s.Incidents() {
		if in.Key == key {
			list = append(list, map[string]any{"id": in.ID, "incident_key": in.Key, "status": in.Status, "title": in.Summary})
		}
	}
	answer(w, http.StatusOK, map[string]any{"incidents": list, "limit": 25, "offset": 0, "more": false})
}

func (s *Server) listNotes(w http.ResponseWriter, r *http.Request) {
	list := []map[string]any{}
	for i, n := range s.Notes(r.PathValue("id")) {
		list = append(list, map[string]any{"id": fmt.Sprintf("N%d", i+1), "content": n})
	}
	answer(w, http.StatusOK, map[string]any{"notes": list})
}

func (s *Server) addNote(w http.ResponseWriter, r *http.Request) {
	from, id := r.Header.Get("From"), r.PathValue("id")
	var body struct {
		Note struct{ Content string }
	}
	err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&body)
	n := utf8.RuneCountInString(body.Note.Content)
	if from == "" || len(s.opt.From) > 0 && !slices.Contains(s.opt.From, from) || err != nil || n == 0 || n > maxNote {
		s.Fail("a note in %s from %q of %d characters: %v", id, from, n, err)
		answer(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"code": 2001, "message": "Invalid Input Provided"}})
		return
	}
	if strings.Trim(id[1:], "0") == "" { // an ID that no account has
		answer(w, http.StatusNotFound, map[string]any{"error": map[string]any{"code": 2100, "message": "Not Found"}})
		return
	}
	s.mu.Lock()
	s.notes[id] = append(s.notes[id], body.Note.Content)
	s.mu.Unlock()
	answer(w, http.StatusCreated, map[string]any{"note": map[string]any{"id": "N1", "content": body.Note.Content}})
}
