package service

import (
	"context"
	"log/slog"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/tracing"
	"paramedic/state"
	"paramedic/state/outbox"
)

// flushTime bounds how long an ending service waits for a collector to take the last traces.
const flushTime = time.Second

// tracingOf returns the settings of the bot's traces.
func tracingOf(cfg config.Config, log *slog.Logger) tracing.Config {
	return tracing.Config{Endpoint: cfg.Tracing.Endpoint, Headers: cfg.Tracing.Headers, Ratio: cfg.Tracing.SampleRatio,
		Version: Version, Logger: log}
}

// traced adds a span to each delivery of the handlers.
func (s *Service) traced(handlers map[state.EffectKind]outbox.Handler) map[state.EffectKind]outbox.Handler {
	for kind, h := range handlers {
		handlers[kind] = s.tracer.Delivery(s.Keeper.Incident, h)
	}
	return handlers
}

// flush exports the last traces. A collector that does not take them loses them.
func (s *Service) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	if err := s.tracer.Close(ctx); err != nil {
		s.deps.Logger.DebugContext(ctx, "the last traces were not exported", "err", err)
	}
}
