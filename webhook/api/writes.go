package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/command"
	"paramedic/webhook/httpio"
)

// WriteJSON is the body of every write of the API. A verb reads the fields that it needs. An empty
// body is an empty WriteJSON.
type WriteJSON struct {
	Actor    string `json:"actor,omitempty"` // the person, if the token has no name; otherwise the token's name or empty
	Reason   string `json:"reason,omitempty"`
	PlanHash string `json:"plan_hash,omitempty"` // for approve (required) and deny: the plan that the person saw
	// Seen is for cancel: the state that the person saw. If the run needs a person and they saw
	// another state, nothing is taken as handled.
	Seen     state.ActionState `json:"seen,omitempty"`
	Duration string            `json:"duration,omitempty"` // silence: "2h"
	Until    time.Time         `json:"until,omitzero"`     // silence
	Right    *bool             `json:"right,omitempty"`    // feedback
	Cause    state.Cause       `json:"cause,omitempty"`    // feedback: the real cause
	Cluster  string            `json:"cluster,omitempty"`  // halt, resume: this cluster only
}

// write is a decoded, authenticated write of the API.
type write struct {
	WriteJSON
	who state.Actor
}

func (s *API) readWrite(w http.ResponseWriter, r *http.Request, verb state.Verb) (write, error) {
	who, err := s.Access.Identify(r)
	if err != nil {
		return write{}, err
	}
	body, err := httpio.ReadBody(w, r, 64<<10, s.BodyTimeout)
	if err != nil {
		return write{}, err
	}
	out := write{who: who}
	if out.WriteJSON, err = decodeWrite(body, verb); err != nil {
		return write{}, err
	}
	out.Reason = text.Line(out.Reason, command.MaxReason)
	out.Actor = text.Line(out.Actor, 128)
	switch {
	case !who.Unverified:
	case out.Actor != "":
		out.who.ID, out.who.Name = out.Actor, out.Actor
	case s.Access.API.Tokens != nil:
		a := httpio.Fail(http.StatusBadRequest, `the token has no name: name yourself in the body, {"actor": "…"}`)
		a.Missing = "actor"
		return write{}, a
	}
	return out, nil
}

// prepare sets the actor of a request. It refuses and records a request whose body names another
// person than its token, and one whose role is too low.
func (s *API) prepare(r *http.Request, o *command.Request, in write, need state.Role) error {
	o.Actor, o.Reason = in.who, in.Reason
	o.Nonce = r.Header.Get("X-Request-Id") + s.Clock.Now().Format(time.RFC3339Nano)
	var reason string
	switch by := in.who; {
	case !by.Unverified && in.Actor != "" && !strings.EqualFold(in.Actor, by.Name):
		reason = fmt.Sprintf("the token belongs to %s, and the body names the actor %s: omit actor, or use "+
			"that person's token", by, in.Actor)
	case !by.Role.Allows(need):
		reason = access.RoleTooLow(by, need)
	default:
		return nil
	}
	s.Refuse(r.Context(), *o, reason)
	return httpio.Fail(http.StatusForbidden, "%s", reason)
}

func pending(w http.ResponseWriter, note string) error {
	if note == "" {
		note = "Paramedic recorded it and applies it shortly"
	}
	return httpio.WriteJSON(w, http.StatusAccepted, PendingJSON{Status: "accepted", Note: note})
}

// onIncident handles POST /api/v1/incidents/{id}/VERB.
func (s *API) onIncident(verb state.Verb) httpio.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		req, err := s.readWrite(w, r, verb)
		if err != nil {
			return err
		}
		in, err := s.Incident(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		o := s.OnIncident(verb, in)
		if err := s.prepare(r, &o, req, state.Responder); err != nil {
			return err
		}
		switch done, err := command.CheckIncident(verb, in); {
		case err != nil:
			return err
		case done:
			return httpio.WriteJSON(w, http.StatusOK, s.show(in))
		}
		switch verb {
		case state.VerbSilence:
			if req.Duration != "" && !req.Until.IsZero() {
				return httpio.Fail(http.StatusBadRequest, "the body has both duration and until: send one of them")
			}
			if o.Until, err = parseUntil(req.Duration, req.Until, s.Clock.Now()); err != nil {
				return httpio.Fail(http.StatusBadRequest, "%s", err)
			}
		case state.VerbFeedback:
			if err := s.checkFeedback(req.WriteJSON, in.Cause()); err != nil {
				return err
			}
			o.Right, o.Cause = *req.Right, req.Cause
		}
		applied, err := s.CarryOut(r.Context(), o, s.ApplyWait)
		if err != nil {
			return err
		}
		if !applied {
			return pending(w, "")
		}
		if fresh, ok := s.View.Incident(in.ID); ok {
			in = fresh
		}
		return httpio.WriteJSON(w, http.StatusOK, s.show(in))
	}
}

// checkFeedback returns why feedback on a verdict cannot be recorded.
func (s *API) checkFeedback(req WriteJSON, verdict state.Cause) error {
	switch {
	case req.Right == nil:
		return httpio.Fail(http.StatusBadRequest, `the body lacks right: send {"right": true}, or {"right": false, "cause": "…"}`)
	case req.Cause == "":
		return nil
	case !httpio.PlainID(string(req.Cause), 64) || strings.ToLower(string(req.Cause)) != string(req.Cause):
		return httpio.Fail(http.StatusBadRequest, "cause must be the ID of a cause, such as kv_exhaustion")
	case *req.Right && req.Cause != verdict:
		return httpio.Fail(http.StatusBadRequest, "the verdict is %s: if the cause is %s, send right: false", verdict, req.Cause)
	case !*req.Right && req.Cause == verdict:
		return httpio.Fail(http.StatusBadRequest, "the verdict is %s: if that is the cause, send right: true", verdict)
	case !*req.Right && len(s.Causes) > 0 && !slices.Contains(s.Causes, req.Cause):
		return httpio.Fail(http.StatusBadRequest, "cause %q does not exist; use %s", req.Cause, list(s.Causes))
	}
	return nil
}

// onAction handles POST /api/v1/actions/{id}/VERB.
func (s *API) onAction(verb state.Verb) httpio.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		req, err := s.readWrite(w, r, verb)
		if err != nil {
			return err
		}
		a, err := s.Action(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		o := s.OnAction(verb, a)
		if err := s.prepare(r, &o, req, state.Responder); err != nil {
			return err
		}
		if verb == state.VerbApprove {
			if reason := req.who.WhyNotApprove(a.Approvers); reason != "" {
				s.Refuse(r.Context(), o, reason)
				return httpio.Fail(http.StatusForbidden, "%s", reason)
			}
		}
		o.Seen = cmp.Or(req.Seen, o.Seen)
		if err := s.CheckAction(verb, a, req.PlanHash, o.Seen); err != nil {
			return err
		}
		applied, err := s.CarryOut(r.Context(), o, s.ApplyWait)
		if err != nil {
			return err
		}
		if !applied {
			a, _ = s.View.Action(a.ID)
			return pending(w, a.CallOff())
		}
		if a, err = s.Decided(o); err != nil {
			return err
		}
		return httpio.WriteJSON(w, http.StatusOK, NewActionJSON(a))
	}
}

// onFleet handles POST /api/v1/halt and /api/v1/resume. It appends one input per cluster, all or
// none.
func (s *API) onFleet(verb state.Verb) httpio.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		req, err := s.readWrite(w, r, verb)
		if err != nil {
			return err
		}
		clusters := s.Clusters
		if req.Cluster != "" {
			if !slices.Contains(clusters, req.Cluster) {
				return httpio.Fail(http.StatusNotFound, "cluster %q is not configured; use one of %s",
					httpio.Cut(req.Cluster, 64), strings.Join(clusters, ", "))
			}
			clusters = []string{req.Cluster}
		}
		o := s.OnClusters(verb, clusters)
		need := state.Admin
		if verb == state.VerbHalt {
			need = state.Responder // stopping is the safe side
		}
		if err := s.prepare(r, &o, req, need); err != nil {
			return err
		}
		applied, err := s.CarryOut(r.Context(), o, s.ApplyWait)
		if err != nil {
			return err
		}
		if !applied {
			return pending(w, "")
		}
		return httpio.WriteJSON(w, http.StatusOK,
			HaltJSON{Halted: verb == state.VerbHalt, Clusters: clusters, Reason: req.Reason})
	}
}
