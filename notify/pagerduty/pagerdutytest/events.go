package pagerdutytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
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

// check says what is wrong with an event.
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
	if n := utf8.RuneCountInString(e.Payload.Summary); n == 0 || n > maxSummary {
		bad("summary of %d characters", n)
	}
	if e.Payload.Source == "" {
		bad("source is missing")
	}
	if !slices.Contains([]string{"critical", "error", "warning", "info"}, e.Payload.Severity) {
		bad("severity %q", e.Payload.Severity)
	}
	if _, err := time.Parse(time.RFC3339, e.Payload.Timestamp); e.Payload.Timestamp != "" && err != nil {
		bad("timestamp %q", e.Payload.Timestamp)
	}
	for _, l := range e.Links {
		if l["href"] == "" {
			bad("a link without href")
		}
	}
	return errs
}

func (s *Server) enqueue(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return // the client went away
	}
	if len(body) > maxBody {
		s.fail("an event of more than %d bytes", maxBody)
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	var e event
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		s.fail("an event that does not decode: %v", err)
		refuse(w, err.Error())
		return
	}
	if errs := e.check(); len(errs) > 0 {
		s.fail("%s %s: %v", e.Action, e.Key, errs)
		refuse(w, errs...)
		return
	}
	if s.opt.RoutingKey != "" && e.RoutingKey != s.opt.RoutingKey {
		s.fail("%s %s: the routing key is not known", e.Action, e.Key) // PagerDuty takes it, and drops it
		answer(w, http.StatusAccepted, map[string]any{"status": "success", "message": "Event processed", "dedup_key": e.Key})
		return
	}
	if s.tooFast() {
		w.Header().Set("Retry-After", "30")
		http.Error(w, `{"status":"throttle exceeded"}`, http.StatusTooManyRequests)
		return
	}
	s.apply(&e)
	answer(w, http.StatusAccepted, map[string]any{"status": "success", "message": "Event processed", "dedup_key": e.Key})
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
		s.dropped = append(s.dropped, e.Action+" "+e.Key) // PagerDuty takes it and does nothing
	case e.Action == "acknowledge":
		open.Status = "acknowledged"
	case e.Action == "resolve":
		open.Status = "resolved"
	}
}

// rest wraps a handler of the REST API with what all of it demands.
func (s *Server) rest(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		if s.opt.Token != "" && token != "Token token="+s.opt.Token || token == "" || token == "Token token=" {
			s.fail("%s %s: the token is wrong", r.Method, r.URL.Path)
			answer(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": 2006, "message": "Unauthorized"}})
			return
		}
		w.Header().Set("ratelimit-limit", "960")
		next(w, r)
	}
}

// listIncidents finds incidents by their key, whatever their status.
func (s *Server) listIncidents(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("incident_key")
	if key == "" {
		s.fail("a search for incidents without incident_key: %s", r.URL.RawQuery) // it would page through the whole account
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
		s.fail("a note in %s from %q of %d characters: %v", id, from, n, err)
		answer(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"code": 2001, "message": "Invalid Input Provided"}})
		return
	}
	s.mu.Lock()
	s.notes[id] = append(s.notes[id], body.Note.Content)
	s.mu.Unlock()
	answer(w, http.StatusCreated, map[string]any{"note": map[string]any{"id": "N1", "content": body.Note.Content}})
}
