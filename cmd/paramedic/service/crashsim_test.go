package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
	"paramedic/state/jetstream"
)

// seedsEnv sets the number of seeds of the crash simulator, for instance 1000.
const seedsEnv = "PARAMEDIC_CRASH_SEEDS"

// A life is one process of the bot. It dies at a write or at a call of Slack or PagerDuty, before
// or after it. Then nothing that it does has an effect any more, and its files are copied as they
// are.
type life struct {
	*jetstream.Store
	dir, copied string
	died        chan struct{}

	write   sync.Mutex   // held by the write in progress
	outside sync.RWMutex // held for reading by each call in progress
	mu      sync.Mutex
	steps   int // writes and calls until death
	after   bool
	dead    bool
	err     error
}

var errDead = fmt.Errorf("%w: the process is dead", state.ErrUnavailable)

// step counts a write or a call, and returns whether it happens and whether the process dies then.
func (l *life) step() (happens, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return false, false
	}
	l.steps--
	return l.steps != 0 || l.after, l.steps == 0
}

// die copies the files. No write and no call is in progress.
func (l *life) die() {
	l.outside.Lock()
	defer l.outside.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return
	}
	l.dead = true
	err := filepath.WalkDir(l.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return gone(err)
		}
		rel, _ := filepath.Rel(l.dir, path)
		data, err := os.ReadFile(path)
		if err != nil {
			return gone(err)
		}
		to := filepath.Join(l.copied, rel)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600))
	})
	l.err = err
	close(l.died)
}

// gone ignores that the server removed a file meanwhile.
func gone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (l *life) writes(do func() error) error {
	l.write.Lock()
	defer l.write.Unlock()
	happens, last := l.step()
	err := errDead
	if happens {
		err = do()
	}
	if last {
		l.die()
		err = errDead
	}
	return err
}

func (l *life) Append(ctx context.Context, in ...state.Input) error {
	return l.writes(func() error { return l.Store.Append(ctx, in...) })
}

func (l *life) Commit(ctx context.Context, p int, f state.Fence, to uint64, records []state.Record) (next state.Fence, err error) {
	err = l.writes(func() (err error) { next, err = l.Store.Commit(ctx, p, f, to, records); return err })
	return next, err
}

// Changed hides that the store has a lease: the process is alone.
func (l *life) Changed() <-chan struct{} { return nil }

// front passes calls on while the process lives.
func (l *life) front(t *testing.T, to string) string {
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		happened, last := func() (bool, bool) {
			l.outside.RLock()
			defer l.outside.RUnlock()
			happens, last := l.step()
			if happens && !last {
				proxy.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
			} else if happens {
				proxy.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
			}
			return happens, last
		}()
		if last {
			l.write.Lock()
			l.die()
			l.write.Unlock()
		}
		if !happened || last {
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(srv.Close)
	return srv.URL + target.Path
}

// A fastClock runs faster than the machine's, so that no seed waits for Slack's limits.
type fastClock struct{ began time.Time }

const simSpeed = 30

func (c fastClock) Now() time.Time { return c.began.Add(simSpeed * time.Since(c.began)).UTC() }

func (c fastClock) After(d time.Duration) <-chan time.Time { return time.After(d / simSpeed) }

// A crashSim is a bot whose processes die, and the world that outlives them.
type crashSim struct {
	t     *testing.T
	rng   *rand.Rand
	slack *slacktest.Server
	pager *pagerdutytest.Server
	cfg   config.Config
	clock fastClock
	dir   string

	now   *life
	bot   *Service
	stop  context.CancelFunc
	ended chan error
	all   *testing.T      // of all seeds: it outlives the wind-up of the dead lives
	over  *sync.WaitGroup // lives that wind up
}

const simRoutingKey = "0123456789abcdef0123456789abcdef"

func newCrashSim(t, all *testing.T, seed uint64) *crashSim {
	clock := fastClock{time.Now()}
	s := &crashSim{t: t, rng: rand.New(rand.NewPCG(seed, 7)), dir: all.TempDir(), cfg: config.Default(), clock: clock, all: all,
		slack: slacktest.New(slacktest.Options{Token: "xoxb-sim", Now: clock.Now}),
		pager: pagerdutytest.New(pagerdutytest.Options{RoutingKey: simRoutingKey, Now: clock.Now})}
	t.Cleanup(s.slack.Close)
	t.Cleanup(s.pager.Close)
	secrets := t.TempDir()
	for name, secret := range map[string]string{"slack": "xoxb-sim", "pager": simRoutingKey} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.cfg.Notify.Console = false
	s.cfg.Notify.Slack.TokenFile, s.cfg.Notify.Slack.Channel = filepath.Join(secrets, "slack"), "#llm-oncall"
	s.cfg.Notify.PagerDuty.RoutingKeyFile = filepath.Join(secrets, "pager")
	s.cfg.Triage.Settle, s.cfg.Triage.ResolveHold = config.Duration(time.Second), config.Duration(2*time.Second)
	return s
}

// start begins a life that ends after a number of writes and calls; 0: it does not die.
func (s *crashSim) start(steps int) {
	log := slog.New(slog.DiscardHandler)
	store, err := jetstream.Open(s.all.Context(), jetstream.Config{Dir: s.dir, Logger: log})
	if err != nil {
		s.t.Fatal(err)
	}
	s.now = &life{Store: store, dir: s.dir, copied: s.all.TempDir(), died: make(chan struct{}), steps: steps, after: s.rng.IntN(2) == 0}
	cfg := s.cfg
	cfg.Notify.Slack.APIURL = s.now.front(s.t, s.slack.URL())
	cfg.Notify.PagerDuty.EventsURL = s.now.front(s.t, s.pager.URL())
	if s.bot, err = New(cfg, Deps{Store: s.now, Clock: s.clock, Logger: log, Out: io.Discard}); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.ended = stop, make(chan error, 1)
	go func(bot *Service, ended chan error) { ended <- bot.Run(ctx) }(s.bot, s.ended)
}

// end leaves the present life to wind up, and continues with what it left.
func (s *crashSim) end() {
	now, bot, stop, ended := s.now, s.bot, s.stop, s.ended
	s.over.Go(func() {
		stop()
		bot.CloseStreams()
		if err := errors.Join(<-ended, now.Close(context.Background())); err != nil {
			s.all.Error(err)
		}
	})
	s.dir = now.copied
	select {
	case <-now.died:
		if now.err != nil {
			s.t.Fatal(now.err)
		}
	default: // it lives on until it has stopped
	}
}

// until lives, and dies and lives again, until something holds.
func (s *crashSim) until(what string, ok func() bool) {
	s.t.Helper()
	late := time.After(5 * time.Minute) // a race-enabled build on a busy machine is slow
	for !ok() {
		select {
		case <-s.now.died:
			s.end()
			s.start(s.next())
		case <-time.After(5 * time.Millisecond):
		case <-late:
			s.t.Fatalf("never: %s; incidents %+v, messages %+v, pages %+v", what, s.bot.Keeper.Incidents(), s.slack.Messages(), s.pager.Incidents())
		}
	}
}

// next returns after how many writes and calls the next life ends. One in four does not.
func (s *crashSim) next() int {
	if s.rng.IntN(4) == 0 {
		return 0
	}
	return 1 + s.rng.IntN(25)
}

const simPools, simAlerts = 2, 3

// post sends the alerts of a pool, and reports whether the bot accepted them.
func (s *crashSim) post(pool int, status string) bool {
	var alerts []string
	ends := "0001-01-01T00:00:00Z"
	if status == "resolved" {
		ends = time.Now().UTC().Format(time.RFC3339)
	}
	for i := range simAlerts {
		alerts = append(alerts, fmt.Sprintf(`{"status":%q,"labels":{"alertname":"VLLMKVCacheExhaustion","severity":"critical",`+
			`"namespace":"team-%d","model_name":"model-%d","pod":"vllm-p%d-7d9f8b6c5-2xkq%d"},"annotations":{},`+
			`"startsAt":"2026-11-21T02:59:00Z","endsAt":%q,"generatorURL":"","fingerprint":"%016x"}`,
			status, pool, pool, pool, i, ends, pool*10+i+1))
	}
	body := fmt.Sprintf(`{"version":"4","receiver":"sim","groupKey":"g%d","externalURL":"http://am","alerts":[%s]}`, pool,
		strings.Join(alerts, ","))
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/webhook/alertmanager", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.bot.Handler.ServeHTTP(w, r)
	return w.Code == http.StatusOK
}

// settled reports whether every alert is in an incident, and each incident has a message and a
// page, all with the status.
func (s *crashSim) settled(resolved bool) bool {
	incidents, messages, pages := s.bot.Keeper.Incidents(), s.slack.Messages(), s.pager.Incidents()
	alerts := 0
	for _, in := range incidents {
		alerts += in.AlertCount
		mine := slices.ContainsFunc(messages, func(m slacktest.Message) bool {
			return strings.Contains(string(m.Metadata), string(in.ID)) && strings.Contains(m.Text, "resolved") == resolved
		})
		paged := slices.ContainsFunc(pages, func(p pagerdutytest.Incident) bool {
			return strings.Contains(p.Key, string(in.ID)) && (p.Status == "resolved") == resolved
		})
		if in.Open() == resolved || !mine || !paged {
			return false
		}
	}
	return alerts == simPools*simAlerts
}

// A bot that dies at any write or call, again and again, loses no accepted alert, and sends one
// message and one page for each incident.
func TestCrashedBotsDoubleNothing(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 10
	}
	if text := os.Getenv(seedsEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", seedsEnv, err)
		}
		seeds = n
	}
	all, over := t, &sync.WaitGroup{}
	t.TempDir() // before the wait, so that the directories are removed after it
	t.Cleanup(over.Wait)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := newCrashSim(t, all, seed)
			s.over = over
			s.start(s.next())
			defer func() { s.end() }()
			for _, status := range []string{"firing", "resolved"} {
				for pool := range simPools {
					s.until("the payload is accepted", func() bool { return s.post(pool, status) })
				}
				s.until("all is "+status+" and told", func() bool { return s.settled(status == "resolved") })
			}
			incidents, messages, pages := s.bot.Keeper.Incidents(), s.slack.Messages(), s.pager.Incidents()
			if len(incidents) != simPools || len(messages) != simPools || len(pages) != simPools {
				t.Errorf("%d incidents, %d messages and %d pages of %d pools: %+v %+v", len(incidents), len(messages), len(pages), simPools,
					messages, pages)
			}
			if f := append(s.slack.Failures(), s.pager.Failures()...); len(f) > 0 {
				t.Errorf("refused: %v", f)
			}
		})
	}
}
