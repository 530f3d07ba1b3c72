package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/notify"
	"paramedic/notify/slack"
	"paramedic/notify/slack/slacktest"
	"paramedic/rules"
	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper"
	"paramedic/state/outbox"
)

// A memoryStore is a store of one partition that keeps waiting inputs and timelines only.
type memoryStore struct {
	mu       sync.Mutex
	seq      uint64
	inputs   chan state.Input
	timeline []state.Record
	records  map[string]state.Record // by key, without the timeline
	position uint64
}

func (m *memoryStore) Partitions() int                        { return 1 }
func (m *memoryStore) CommitRecords() int                     { return 999 }
func (m *memoryStore) Partition(string) int                   { return 0 }
func (m *memoryStore) Received(context.Context) (bool, error) { return true, nil }
func (m *memoryStore) Ready(context.Context) error            { return nil }
func (m *memoryStore) Close()                                 {}
func (m *memoryStore) Buffered() int                          { return len(m.inputs) }

func (m *memoryStore) Waiting() int { return len(m.inputs) }
func (m *memoryStore) End() uint64  { return 0 }

func (m *memoryStore) Append(_ context.Context, inputs ...state.Input) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, in := range inputs {
		m.seq++
		in.Seq = m.seq
		m.inputs <- in
	}
	return nil
}

func (m *memoryStore) Load(_ context.Context, _ int, decode state.Decoder) ([]any, state.Fence, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []any
	for _, r := range m.records {
		v, err := decode(r)
		if err != nil {
			return nil, state.Fence{}, err
		}
		out = append(out, v)
	}
	return out, state.Fence{Position: m.position}, nil
}

func (m *memoryStore) Inputs(context.Context, int, uint64) (state.InputReader, error) { return m, nil }

func (m *memoryStore) Next(ctx context.Context) (state.Input, error) {
	select {
	case in := <-m.inputs:
		return in, nil
	case <-ctx.Done():
		return state.Input{}, ctx.Err()
	}
}

func (m *memoryStore) Commit(_ context.Context, _ int, _ state.Fence, to uint64, records []state.Record) (state.Fence, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		switch {
		case strings.HasPrefix(r.Key, state.TimelinePrefix):
			m.timeline = append(m.timeline, r)
		case r.Value == nil:
			delete(m.records, r.Key)
		case m.records == nil:
			m.records = map[string]state.Record{r.Key: r}
		default:
			m.records[r.Key] = r
		}
	}
	m.position = to
	return state.Fence{Position: to}, nil
}

func (m *memoryStore) Follow(int, state.Fence, []state.Record) {}

func (m *memoryStore) Committed(context.Context, int) (uint64, error) { return 0, errAlone }

func (m *memoryStore) Resume(context.Context, int, state.Fence) (state.Fence, error) {
	return state.Fence{}, errAlone
}

var errAlone = errors.New("no other process works on this store")

func (m *memoryStore) Replace(context.Context, int, state.Fence, uint64, []state.Record) (state.Fence, error) {
	return state.Fence{}, errors.New("this store is never damaged")
}

func (m *memoryStore) List(_ context.Context, _ int, prefixes ...string) ([]state.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []state.Record
	for _, r := range m.timeline {
		if slices.ContainsFunc(prefixes, r.Under) {
			out = append(out, r)
		}
	}
	return out, nil
}

// Slack takes one message a second. Of 60 incidents at once, 40 warnings first, every critical one
// is posted within 30 s, each in one call, and every warning follows.
func TestCriticalIncidentsArePostedFirst(t *testing.T) {
	const warnings, criticals = 40, 20
	workspace := slacktest.New(slacktest.Options{Burst: 1})
	defer workspace.Close()
	catalog, library, err := LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		router, err := notify.NewRouter(nil, []state.Channel{state.ChannelSlack})
		if err != nil {
			t.Fatal(err)
		}
		clock, log := state.SystemClock{}, slog.New(slog.DiscardHandler)
		keeper := keeper.New(keeper.Config{Store: &memoryStore{inputs: make(chan state.Input, 1e5)}, Clock: clock, Logger: log,
			Fold: &fold.Fold{Triage: Knowledge{rules.Rules{Catalog: catalog}, library}, Routing: router,
				Settings: state.DefaultSettings()}})
		notifier := slack.New(slack.Config{Channel: "#llm-oncall", APIURL: workspace.URL()},
			slack.Options{Clock: clock, HTTP: workspace.Client(), Token: func() (string, error) { return "xoxb-1", nil }})
		handler := notify.NewHandler(notify.HandlerConfig{View: keeper, Clock: clock,
			Notifiers: map[state.Channel]notify.Notifier{state.ChannelSlack: notifier}})
		nothing := delivery(func(context.Context, state.Effect) state.Outcome { return state.Outcome{Done: true} })
		dispatcher, err := outbox.New(outbox.Config{Source: keeper, Log: keeper, Clock: clock, Logger: log,
			Handlers: map[state.EffectKind]outbox.Handler{
				state.EffectPrepare: nothing, state.EffectPlan: nothing, state.EffectNotify: delivery(handler.Handle),
				state.EffectEnrich: blindGatherer{},
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = keeper.Run(ctx) })
		group.Go(func() { _ = dispatcher.Run(ctx) })
		synctest.Wait()

		began := time.Now()
		var batch state.AlertBatch
		for n := range warnings + criticals {
			severity := "warning"
			if n >= warnings {
				severity = "critical"
			}
			batch.Alerts = append(batch.Alerts, state.Alert{Fingerprint: state.Fingerprint(fmt.Sprint(n)), Status: state.Firing,
				StartsAt: began,
				Labels:   map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": severity, "pod": fmt.Sprintf("app%d-0", n)}})
		}
		if err := keeper.Append(ctx, state.Input{Cluster: "prod", Alerts: &batch}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		stop()
		group.Wait()

		var last, first time.Duration
		var posted []string
		for _, m := range workspace.Messages() {
			var at float64
			fmt.Sscan(m.TS, &at)
			after := time.Duration((at - float64(began.Unix())) * float64(time.Second))
			if posted = append(posted, m.Text); strings.Contains(m.Text, "critical") {
				last = after
			} else if first == 0 {
				first = after
			}
		}
		n := len(slices.DeleteFunc(slices.Clone(posted), func(text string) bool { return !strings.Contains(text, "critical") }))
		t.Logf("the last of %d critical incidents was posted %s after the alerts, the first of %d warnings %s", n, last, len(posted)-n,
			first)
		if n != criticals || len(posted) != warnings+criticals {
			t.Errorf("%d critical incidents and %d in all were posted, want %d and %d", n, len(posted), criticals, warnings+criticals)
		}
		if most := 30 * time.Second; last > most {
			t.Errorf("the last critical incident was posted after %s, want at most %s", last, most)
		}
		if posts := workspace.Calls("chat.postMessage"); posts != warnings+criticals || workspace.Limited() > 0 ||
			len(workspace.Failures()) > 0 {
			t.Errorf("%d posts for %d incidents, %d too fast, refused: %v", posts, warnings+criticals, workspace.Limited(),
				workspace.Failures())
		}
	})
}

// A blindGatherer finds no evidence at all.
type blindGatherer struct{}

// Deliver returns empty evidence.
func (blindGatherer) Deliver(_ context.Context, e state.Effect) outbox.Result {
	return outbox.Result{Outcome: state.Outcome{Done: true},
		Inputs: []state.Input{{Evidence: &state.Evidence{Incident: e.Incident, At: time.Now()}}}}
}
