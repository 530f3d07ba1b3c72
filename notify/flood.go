package notify

import (
	"context"
	"fmt"

	"paramedic/state"
)

// A Flooder is a Notifier that shows a flood in one summary.
//
// ShowFlood makes the channel show the flood as it is. It MUST be safe to repeat. It returns the
// summary's present handles, also beside an error if a part was done. It marks errors as Show does.
// URL is the page that lists the incidents; it may be empty.
type Flooder interface {
	ShowFlood(ctx context.Context, f state.Flood, url string) (map[string]string, error)
}

// flood shows the flood of the effect's channel.
func (h *Handler) flood(ctx context.Context, e state.Effect) state.Outcome {
	out := state.Outcome{Effect: e.ID, Turn: e.Turn}
	n, ok := h.cfg.Notifiers[e.Channel].(Flooder)
	if !ok || h.cfg.Flood == nil {
		out.Done, out.Error = true, fmt.Sprintf("channel %s shows no summary", e.Channel)
		return out
	}
	f, ok := h.cfg.Flood(e.Channel)
	if !ok {
		out.Done = true
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	ref, err := n.ShowFlood(ctx, f, h.cfg.Links.List())
	out.Ref = ref
	if h.settle(&out, e, err); err == nil {
		out.Rev = f.Rev
	}
	return out
}
