package slacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"paramedic/notify/notifytest"

	"golang.org/x/time/rate"
)

// Options configure a fake workspace. The zero value has the channel #llm-oncall with the ID
// C0000ONCALL, and accepts any token that starts with xoxb-.
type Options struct {
	Token    string            // the only token that is accepted
	Channels map[string]string // name, without #, to ID
	// Private, Archived and Absent name channels: the private ones, the archived ones, and those
	// that the bot has not joined.
	Private, Archived, Absent []string
	// Scopes lists the token's scopes. nil: all that this package's methods need.
	Scopes []string
	// Burst limits messages to one per second and channel, with this burst; 0: no limit. Methods
	// with a tier are always limited.
	Burst int
	Now   func() time.Time // nil: time.Now
}

// A Message is a message as Slack stores it.
type Message struct {
	Channel  string
	TS       string
	ThreadTS string // the root's timestamp, of a reply
	Text     string
	Blocks   json.RawMessage
	Metadata json.RawMessage
	Edits    int
}

// A FaultKind is a way to fail.
type FaultKind int

// The ways to fail.
const (
	Unavailable FaultKind = iota // 503 with a page of HTML; nothing happened
	Lost                         // it happened, and the answer is a 500
	Hang                         // nothing happens until the client's timeout
	Limited                      // 429 with Retry-After
	Code                         // 200 with ok: false and the error code in Text
	Garbage                      // 200 with Text as the body
)

// A Fault makes calls of a method fail.
type Fault struct {
	Method string // empty: any
	Kind   FaultKind
	Text   string
	Times  int // 0: once
	After  time.Duration
}

// A Server is the fake. It is safe for concurrent use.
type Server struct {
	notifytest.FailureLog
	opt  Options
	http *httptest.Server
	done chan struct{}
	once sync.Once

	mu       sync.Mutex
	messages []*Message
	whispers []string
	calls    []string
	faults   notifytest.Faults[Fault]
	limits   map[string]*rate.Limiter
	made     map[string][]time.Time // the calls of the last minute, by method
	limited  int
	lastTS   int64
}

// New starts the fake.
func New(opt Options) *Server {
	if opt.Channels == nil {
		opt.Channels = map[string]string{"llm-oncall": "C0000ONCALL"}
	}
	if opt.Scopes == nil {
		opt.Scopes = []string{"chat:write", "commands", "channels:history", "groups:history", "channels:read", "groups:read"}
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &Server{opt: opt, done: make(chan struct{}), limits: map[string]*rate.Limiter{}, made: map[string][]time.Time{}}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Close stops the fake. Calls that hang end.
func (s *Server) Close() {
	s.once.Do(func() { close(s.done) })
	s.http.Close()
}

// URL returns the API's base, with the trailing slash that clients need.
func (s *Server) URL() string { return s.http.URL + "/api/" }

// Client returns a client that calls the fake without a socket. In a synctest bubble it runs on the
// bubble's clock.
func (s *Server) Client() *http.Client { return &http.Client{Transport: direct{s}} }

// A direct passes requests to the fake.
type direct struct{ *Server }

// RoundTrip answers the request.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r = r.Clone(r.Context()) // a transport must not change its request
	if r.Body == nil {
		r.Body = http.NoBody
	}
	d.serve(w, r)
	return w.Result(), nil
}

// Messages returns the messages in the channels, without replies, oldest first.
func (s *Server) Messages() []Message {
	return s.list(func(m *Message) bool { return m.ThreadTS == "" })
}

// Thread returns the replies to a message, oldest first.
func (s *Server) Thread(ts string) []Message {
	return s.list(func(m *Message) bool { return m.ThreadTS == ts })
}

func (s *Server) list(keep func(*Message) bool) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages {
		if keep(m) {
			out = append(out, *m)
		}
	}
	return out
}

// Calls returns the number of calls of a method, including failed ones.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == method {
			n++
		}
	}
	return n
}

// Limited returns the number of calls that exceeded a limit.
func (s *Server) Limited() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limited
}

// Inject makes the next matching calls fail. Faults of one method are used up in the order of their
// injection.
func (s *Server) Inject(f Fault) { s.faults.Add(f, f.Times) }

// Delete removes a message, as a person may.
func (s *Server) Delete(ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = slices.DeleteFunc(s.messages, func(m *Message) bool { return m.TS == ts })
}

// fault counts a call of a method and returns its fault, if any.
func (s *Server) fault(method string) (Fault, bool) {
	s.mu.Lock()
	s.calls = append(s.calls, method)
	s.mu.Unlock()
	return s.faults.Take(func(f Fault) bool { return f.Method == "" || f.Method == method })
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	method, ok := strings.CutPrefix(r.URL.Path, "/api/")
	if !ok || r.Method != http.MethodPost && r.Method != http.MethodGet {
		s.Fail("%s %s is not a call of the Web API", r.Method, r.URL.Path)
		http.NotFound(w, r)
		return
	}
	if method == responseURL {
		s.whisper(w, r)
		return
	}
	f, faulty := s.fault(method)
	if faulty && f.Kind != Lost {
		s.faulty(w, r, f)
		return
	}
	answer, code := s.call(method, r)
	w.Header().Set("X-OAuth-Scopes", strings.Join(s.opt.Scopes, ","))
	switch {
	case faulty:
		w.WriteHeader(http.StatusInternalServerError)
	case code == "ratelimited":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case code != "":
		reply(w, map[string]any{"ok": false, "error": code})
	default:
		answer["ok"] = true
		reply(w, answer)
	}
}

func (s *Server) faulty(w http.ResponseWriter, r *http.Request, f Fault) {
	switch f.Kind {
	case Unavailable:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "<html>we will be back</html>")
	case Limited:
		w.Header().Set("Retry-After", fmt.Sprint(int(f.After.Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
	case Code:
		reply(w, map[string]any{"ok": false, "error": f.Text})
	case Garbage:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, f.Text)
	case Hang:
		select {
		case <-r.Context().Done():
		case <-s.done:
		}
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
