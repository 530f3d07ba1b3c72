package command

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"paramedic/state"
	"paramedic/webhook/httpio"
)

// A Runner finds the subject of a command, checks the command, and makes it durable.
type Runner struct {
	Log    state.Log
	View   state.View
	Clock  state.Clock
	Logger *slog.Logger
	// Clusters are the names of the bot's clusters.
	Clusters []string
	// Loading returns an error while the view lacks incidents. nil: it lacks none.
	Loading func() error
	// Timeout bounds how long making an input durable may take.
	Timeout time.Duration
}

// Loaded returns an error that asks the sender to try again while the view lacks incidents.
func (r *Runner) Loaded() error {
	if r.Loading != nil {
		if err := r.Loading(); err != nil {
			return httpio.Fail(http.StatusServiceUnavailable, "the state is being loaded: %s; try again, or ask /readyz", err)
		}
	}
	return nil
}

// Append makes the inputs durable. If it fails, none of them was kept, and the error asks the
// sender to retry.
func (r *Runner) Append(ctx context.Context, inputs ...state.Input) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	err := r.Log.Append(ctx, inputs...)
	if err == nil {
		return nil
	}
	r.Logger.ErrorContext(ctx, "input was not made durable", "err", err)
	if errors.Is(err, state.ErrUnavailable) {
		return httpio.Fail(http.StatusServiceUnavailable, "Paramedic cannot store this now: send it again")
	}
	return httpio.Fail(http.StatusServiceUnavailable,
		"Paramedic did not store this: send it again; if that fails too, read its log")
}
