package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"paramedic/state"
	"paramedic/webhook/httpio"
)

const (
	keepAlive   = 15 * time.Second
	streamWrite = 10 * time.Second // bounds the write of one event to the reader
)

// events streams timeline entries as they are written, of all incidents or of ?incident=. It
// accepts Last-Event-ID and repeats nothing: a reader that missed entries reads the timeline.
func (s *API) events(w http.ResponseWriter, r *http.Request) error {
	var only state.IncidentID
	if name := r.URL.Query().Get("incident"); name != "" {
		in, err := s.Incident(r.Context(), name)
		if err != nil {
			return err
		}
		only = in.ID
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return httpio.Fail(http.StatusServiceUnavailable, "too many event streams are open; close one, or try again")
	}
	conn := http.NewResponseController(w)
	entries := s.View.Subscribe(r.Context())
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	send := func(text string) error {
		_ = conn.SetWriteDeadline(time.Now().Add(streamWrite)) // the deadline of a socket, so it is the machine's time
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return conn.Flush()
	}
	if err := send("retry: 2000\n: Paramedic's timeline\n\n"); err != nil {
		return nil
	}
	for {
		text := ": still here\n\n"
		select {
		case <-r.Context().Done():
			return nil
		case <-s.Done:
			return nil
		case e, ok := <-entries:
			if !ok {
				return nil
			}
			if only != "" && e.Incident != only {
				continue
			}
			data, err := json.Marshal(NewEntryJSON(e))
			if err != nil {
				return fmt.Errorf("encoding a timeline entry: %w", err)
			}
			text = fmt.Sprintf("id: %s/%d\nevent: entry\ndata: %s\n\n", e.Incident, e.N, data)
		case <-s.Clock.After(keepAlive):
		}
		if _, err := s.Access.Identify(r); err != nil {
			return nil // logged out, or the token was removed
		}
		if send(text) != nil {
			return nil // the reader is gone
		}
	}
}
