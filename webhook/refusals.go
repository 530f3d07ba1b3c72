package webhook

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"paramedic/internal/text"
	"paramedic/webhook/httpio"
)

// refusalEvery is the least time between two log lines about refusals with one status.
const refusalEvery = time.Minute

// refusals logs refused webhooks, and counts those that come too fast to log.
type refusals struct {
	mu   sync.Mutex
	last map[int]time.Time
	more map[int]int
}

// logRefusal logs that a webhook was refused, with its sender and the reason.
func (s *Server) logRefusal(r *http.Request, a *httpio.Error) {
	if !strings.HasPrefix(r.URL.Path, "/webhook/") {
		return
	}
	now := s.Clock.Now()
	f := &s.refusals
	f.mu.Lock()
	if f.last == nil {
		f.last, f.more = map[int]time.Time{}, map[int]int{}
	}
	if at, ok := f.last[a.Code]; ok && now.Sub(at).Abs() < refusalEvery {
		f.more[a.Code]++
		f.mu.Unlock()
		return
	}
	more := f.more[a.Code]
	f.last[a.Code], f.more[a.Code] = now, 0
	f.mu.Unlock()
	sender, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		sender = r.RemoteAddr
	}
	s.Logger.WarnContext(r.Context(), "Paramedic refuses a webhook; it logs one a minute for each status", "path", r.URL.Path,
		"status", a.Code, "sender", text.Line(sender, 100), "refused_since_last", more, "err", text.Line(a.Text, 300))
}
