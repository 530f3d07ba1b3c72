package backtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/remediate"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus"
	"paramedic/rules/signals"
	"paramedic/state"
	"paramedic/state/fold"
)

// Options say what to play.
type Options struct {
	Config  config.Config
	URL     string                 // of Prometheus
	Token   func() (string, error) // bearer token; nil: none
	Cluster string                 // the label cluster of the alerts; empty: all alerts
	Since   time.Duration          // the length of the window
	Rate    float64                // most queries per second
	State   string                 // the state file; empty: none
	End     time.Time              // of the window
	// Transport is used for all requests. Nil: that of the bot.
	Transport http.RoundTripper
	// Report is called after each piece; nil: not.
	Report func(Progress)
}

// Progress tells how far a backtest is.
type Progress struct {
	From, At, To      time.Time
	Alerts, Incidents int
	Queries           int // of this run
}

// Share returns the part of the window that was played, from 0 to 1.
func (p Progress) Share() float64 { return float64(p.At.Sub(p.From)) / float64(p.To.Sub(p.From)) }

// A backtest is one run over a window.
type backtest struct {
	*player
	Options
	to      time.Time
	span    time.Duration // of the next piece
	history *history
	pacer   *pacer
	direct  v1.API // without the pacer, for the first question
	known   []signals.Signal
	source  func() (enrich.Source, error) // of evidence
	file    *stateFile                    // nil: none
	most    int                           // the most records held after a piece
}

// Run plays the window and returns the result. If the context ends before, the state file has
// everything up to the last piece.
func Run(ctx context.Context, o Options) (Report, error) {
	b, err := newBacktest(o)
	if err != nil {
		return Report{}, err
	}
	if err := b.begin(ctx); err != nil {
		return Report{}, err
	}
	for b.now.Before(b.to) {
		if err := b.piece(ctx); err != nil {
			return Report{}, b.interrupted(ctx, err)
		}
	}
	b.finish()
	if b.tally.Alerts+b.tally.None == 0 {
		return Report{}, b.noAlerts()
	}
	if err := b.file.remove(); err != nil {
		return Report{}, err
	}
	return b.tally.report(b.from, b.to, b.cluster), nil
}

func newBacktest(o Options) (*backtest, error) {
	known, err := signals.LoadSignals()
	if err != nil {
		return nil, fmt.Errorf("signals: %w", err)
	}
	catalog, library, err := service.LoadKnowledge(o.Config)
	if err != nil {
		return nil, err
	}
	// Every channel is on: a backtest counts messages, and sends none.
	router, err := service.NewRouterFor(o.Config, []state.Channel{state.ChannelPagerDuty, state.ChannelSlack, state.ChannelConsole})
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	if o.Transport == nil {
		o.Transport = prometheus.Transport()
	}
	b := &backtest{Options: o, known: known, pacer: newPacer(o.Transport, o.Rate), span: piece}
	settings := o.Config.Settings()
	settings.Retain = kept
	b.player = &player{cluster: o.clusterName(), severe: severityOf, board: fold.NewBoard(), bot: newDispatcher(botRoute),
		plain: newDispatcher(plainRoute), paging: map[string]bool{}, tally: newTally(), past: &pastCluster{}, failed: b.pacer.err,
		fold: &fold.Fold{Triage: service.Knowledge{Rules: rules.Rules{Catalog: catalog}, Library: library}, Routing: router,
			Settings: settings}}
	b.aid, err = remediate.New(remediate.Config{Site: guard.Site{Rules: o.Config.Remediation(policy.Timing{}), View: memory{b.board},
		Clusters: b.clusters(), Gauge: b.player, Clock: b.player, Titles: catalog.Titles()}, Playbook: library.For})
	if err != nil {
		return nil, fmt.Errorf("first aid: %w", err)
	}
	b.history = &history{match: selector(o.Cluster), active: map[string]*alert{}, gaps: gaps{}}
	if b.history.api, err = o.api(b.pacer); err != nil {
		return nil, err
	}
	if b.direct, err = o.api(o.Transport); err != nil {
		return nil, err
	}
	b.source = func() (enrich.Source, error) {
		return prometheus.New(prometheus.Config{URL: o.URL, Token: o.Token, Transport: b.pacer, Timeout: gatherPatience})
	}
	if o.State != "" {
		b.file = &stateFile{path: o.State}
	}
	return b, nil
}

// clusterName returns the name of the cluster for the rules.
func (o Options) clusterName() string {
	if o.Cluster != "" {
		return o.Cluster
	}
	return o.Config.Clusters[0].Name
}

// api returns Prometheus' API through a transport.
func (o Options) api(through http.RoundTripper) (v1.API, error) {
	client, err := api.NewClient(api.Config{Address: o.URL, Client: &http.Client{Transport: &bearer{o.Token, through},
		CheckRedirect: enrich.RefuseRedirect}})
	if err != nil {
		return nil, fmt.Errorf("making a Prometheus client: %s", enrich.Redact(err))
	}
	return v1.NewAPI(client), nil
}

// bearer adds the current token to each request.
type bearer struct {
	token func() (string, error)
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != nil {
		token, err := b.token()
		if err != nil {
			return nil, errors.New("the bearer token cannot be read")
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return b.next.RoundTrip(r)
}

// begin continues from the state file, or checks that Prometheus has the window.
func (b *backtest) begin(ctx context.Context) error {
	found, err := b.resume()
	if err != nil || found {
		return err
	}
	b.to = b.End.UTC().Truncate(time.Second)
	b.from = b.to.Add(-b.Since)
	b.now = b.from
	if err := b.checkWindow(ctx); err != nil {
		return err
	}
	if b.history.rules, err = readRules(ctx, b.history.api); err != nil {
		if failed := b.trust(ctx); failed != nil {
			return failed
		}
		b.history.rules = rulebook{} // such as a store of samples, which evaluates no rules
	}
	b.rules = b.history.rules
	return nil
}

// gatherPatience is the time that one gathering may take. It waits for its turn, and for a server
// that is overloaded. Evidence of the past does not get old.
const gatherPatience = time.Hour

// piece plays the next part of the window. Its readers of evidence are new, so that a run that
// continues from the state file reads exactly as one that was not interrupted.
func (b *backtest) piece(ctx context.Context) error {
	source, err := b.source()
	if err != nil {
		return err
	}
	b.gather = enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{b.cluster: {Prometheus: source}}, Signals: b.known,
		Deadline: gatherPatience, Log: slog.New(slog.DiscardHandler)})
	span, err := b.history.span(ctx, b.now, min(b.span, b.to.Sub(b.now)))
	if err != nil {
		return err
	}
	end := b.now.Add(span)
	events, err := b.history.read(ctx, b.now, end)
	if err != nil {
		return err
	}
	if err := b.play(ctx, events, end); err != nil {
		return err
	}
	b.settle()
	b.span = min(2*span, piece)
	b.most = max(b.most, b.held())
	if err := b.save(); err != nil {
		return err
	}
	if b.Report != nil {
		b.Report(Progress{From: b.from, At: b.now, To: b.to, Alerts: b.tally.Alerts,
			Incidents: b.tally.Opened + b.tally.open(b.incidents()), Queries: b.pacer.queries()})
	}
	return nil
}

// held counts the records in memory that grow with the alerts.
func (b *backtest) held() int {
	n := len(b.history.active) + len(b.tally.Incidents) + len(b.tally.Actions) + len(b.tally.Counted)
	for _, d := range []*dispatcher{b.bot, b.plain} {
		n += len(d.due)
		for _, g := range d.groups {
			n += len(g.Alerts)
		}
	}
	for in := range b.board.EveryIncident() {
		n += 1 + len(b.board.AlertsOf(in))
	}
	return n
}

// interrupted returns the error of a run that ended before its window.
func (b *backtest) interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	} else {
		err = errors.New(enrich.Redact(err))
	}
	at := b.now.Format("2006-01-02 15:04 MST")
	if b.file == nil {
		return fmt.Errorf("%w at %s of the window: with --state FILE the same command would continue there", err, at)
	}
	return fmt.Errorf("%w at %s of the window: run the same command again to continue from %s", err, at, b.file.path)
}

// open counts the incidents that are not in the sums yet.
func (t *tally) open(all []*state.Incident) int {
	return len(slices.DeleteFunc(all, func(in *state.Incident) bool { return t.Counted[in.ID] || in.MergedInto != "" }))
}
