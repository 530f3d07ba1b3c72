package pagerduty

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	api "github.com/PagerDuty/go-pagerduty"

	"paramedic/notify"
	"paramedic/state"
)

// The events API accepts about 120 calls a minute per integration key, the REST API 960.
const (
	eventsEvery = time.Minute / PerMinute
	eventsBurst = 10
	restEvery   = 100 * time.Millisecond
	patience    = 8 * time.Second

	// orchestrationKey begins the keys of global orchestrations and rulesets
	// (https://support.pagerduty.com/main/docs/change-events).
	orchestrationKey = "R"
)

// Options configure a Notifier beyond its Config.
type Options struct {
	Clock      state.Clock
	HTTP       *http.Client           // nil: a client with a timeout
	RoutingKey func() (string, error) // nil: Config.RoutingKeyFile, read at every call
	APIToken   func() (string, error) // nil: Config.APITokenFile, likewise
	// TookOver returns when this process went on in place of another one, which made calls until
	// then. nil or zero: there was none.
	TookOver func() time.Time
}

// A Notifier pages through PagerDuty. It is safe for concurrent use.
type Notifier struct {
	cfg    Config
	opt    Options
	events *notify.Limiter
	rest   *notify.Limiter
}

var (
	_ notify.Notifier = (*Notifier)(nil)
	_ notify.Noter    = (*Notifier)(nil)
	_ notify.Paced    = (*Notifier)(nil)
)

// New returns a notifier with a valid configuration.
func New(cfg Config, opt Options) *Notifier {
	cfg.EventsURL, cfg.APIURL = strings.TrimRight(cfg.EventsURL, "/"), strings.TrimRight(cfg.APIURL, "/")
	if opt.HTTP == nil {
		opt.HTTP = &http.Client{Timeout: 15 * time.Second}
	}
	if opt.RoutingKey == nil {
		opt.RoutingKey = notify.SecretFile(cfg.RoutingKeyFile)
	}
	if opt.APIToken == nil {
		opt.APIToken = notify.SecretFile(cfg.APITokenFile)
	}
	return &Notifier{
		cfg: cfg, opt: opt,
		events: notify.NewLimiter(opt.Clock, eventsEvery, eventsBurst, patience).After(opt.TookOver, 0),
		rest:   notify.NewLimiter(opt.Clock, restEvery, 5, patience).After(opt.TookOver, 0),
	}
}

// Free returns how many events can be sent now, and when there is one more.
func (n *Notifier) Free(now time.Time) (events int, more time.Time) { return n.events.Free(now) }

// The handles in the page's Ref. refStatus is the status of the page. refMerged records that the
// page's end was explained. refCause is the cause that the page names, and refCauses counts its
// changes. refHanded is the last hand-over to a person that was reported. refSeverity is the
// severity with which the page was triggered. Package fold reads refStatus and refSeverity.
const (
	refStatus    = "status"
	refMerged    = "merged"
	refCause     = "cause"
	refCauses    = "causes"
	refHanded    = "handed"
	refSeverity  = "severity"
	triggered    = "triggered"
	acknowledged = "acknowledged"
	resolved     = "resolved"
	perhaps      = "perhaps" // a trigger without an answer may have opened it
)

// Show makes the page triggered, acknowledged or resolved, as the incident is. It decides from what
// was sent, never from what PagerDuty holds. Sending the same again changes nothing there.
func (n *Notifier) Show(ctx context.Context, m notify.Message, told state.Told, fresh bool) (map[string]string, error) {
	ref := maps.Clone(told.Ref)
	if ref == nil {
		ref = map[string]string{}
	}
	for _, step := range steps(m, ref, fresh) {
		if step.send != "" {
			if err := n.send(ctx, step.send, m); err != nil {
				return ref, err
			}
		}
		ref[refStatus] = step.status
		if step.send == "trigger" {
			ref[refCause], ref[refHanded], ref[refSeverity] = pageCause(m), handedAt(m), string(m.Severity)
		}
	}
	if err := n.reportHandOver(ctx, m, ref); err != nil {
		return ref, err
	}
	if err := n.reportCause(ctx, m, ref); err != nil {
		return ref, err
	}
	if m.MergedInto != "" && ref[refStatus] == resolved && ref[refMerged] == "" {
		explain := n.recordMerge
		if n.cfg.Notes() {
			explain = n.noteMerge
		}
		// Only after the resolve, so that a failure here never keeps a page open.
		if err := explain(ctx, m); err != nil {
			return ref, err
		}
		ref[refMerged] = "explained"
	}
	return ref, nil
}

// A step is an event to send, if any, and the page's status after it.
type step struct{ send, status string }

// steps returns the steps from the page's status to the incident's. It is the whole state table of
// a page. A page that is open when the incident becomes critical is replaced: PagerDuty does not
// ring again for an open page, and the routes of its services go by the severity of the trigger.
func steps(m notify.Message, ref map[string]string, fresh bool) []step {
	status := ref[refStatus]
	over := m.Status == state.StatusResolved
	benign := m.Cause == state.BenignAlert && m.HandedAt.IsZero()
	var out []step
	switch {
	case status == resolved:
		return nil // a trigger now would open a second incident
	case status == "" && over:
		if fresh {
			return nil // no person was paged
		}
		return []step{{"resolve", resolved}} // a trigger may have been delivered
	case over:
		return []step{{"resolve", resolved}}
	case benign && (status == perhaps || status == "" && fresh):
		return nil // a rule that fires on a healthy engine pages no person
	case benign && status == "":
		return []step{{"", perhaps}} // a trigger may have been delivered: its end has to be reported
	case status == "" || status == perhaps:
		out = append(out, step{"trigger", triggered})
	case !benign && m.Severity == state.Critical && ref[refSeverity] != "" && ref[refSeverity] != string(state.Critical):
		out, status = append(out, step{"resolve", ""}, step{"trigger", triggered}), triggered
	}
	if status != acknowledged && m.Acknowledged() {
		if m.AckedBy.Via == "pagerduty" {
			return append(out, step{"", acknowledged}) // the acknowledgement came from PagerDuty
		}
		out = append(out, step{"acknowledge", acknowledged})
	}
	return out
}

func (n *Notifier) send(ctx context.Context, action string, m notify.Message) error {
	return n.deliver(ctx, func(key string) *api.V2Event {
		if action == "trigger" {
			return event(key, m)
		}
		return &api.V2Event{RoutingKey: key, Action: action, DedupKey: string(m.Incident)}
	})
}

func (n *Notifier) deliver(ctx context.Context, made func(key string) *api.V2Event) error {
	key, err := n.opt.RoutingKey()
	if err != nil {
		return notify.Unreadable(err)
	}
	if err := n.events.Wait(ctx); err != nil {
		return err
	}
	e := made(key)
	c, call := n.client("")
	_, _ = c.ManageEventWithContext(ctx, e) // call has more detail than the library's error
	err = classify(n.events, call.verdict(e.Action))
	var refused *notify.Refused
	if errors.As(err, &refused) && call.fixable() {
		return &notify.Fixable{Err: refused.Err}
	}
	return err
}

// undiagnosed is the handle refCause of a page that was sent before the first verdict.
const undiagnosed = "no verdict"

// mostCauses bounds how many changes of the cause a page reports.
const mostCauses = 4

func pageCause(m notify.Message) string {
	if !m.Diagnosed {
		return undiagnosed
	}
	return string(m.Cause)
}

// reportCause reports to an open page that its cause has changed. It writes a note or sends a
// change event. A trigger with the same key would only add a line to the page's log. It would open
// a second page if a person has resolved the first without our knowledge.
func (n *Notifier) reportCause(ctx context.Context, m notify.Message, ref map[string]string) error {
	open := ref[refStatus] == triggered || ref[refStatus] == acknowledged
	before := ref[refCause]
	if !open || !m.Diagnosed || m.Cause == state.Unknown || before == string(m.Cause) {
		return nil
	}
	if before == "" { // triggered by an older version, which did not store it
		ref[refCause] = string(m.Cause)
		return nil
	}
	told, _ := strconv.Atoi(ref[refCauses])
	if told >= mostCauses {
		return nil
	}
	var err error
	if was := state.Cause(before); n.cfg.Notes() {
		err = n.noteOwn(ctx, m, causeMark(m, was), noteText(m, was))
	} else {
		err = n.recordChange(ctx,
			func(key string) api.ChangeEvent { return causeEvent(key, m, was, n.opt.Clock.Now()) })
	}
	if err != nil {
		return err
	}
	ref[refCause], ref[refCauses] = string(m.Cause), strconv.Itoa(told+1)
	return nil
}

// handedAt returns the time of the hand-over to a person in the form of the handle refHanded.
func handedAt(m notify.Message) string {
	if m.HandedAt.IsZero() {
		return ""
	}
	return m.HandedAt.UTC().Format(time.RFC3339)
}

// reportHandOver reports to an open page that first aid needs a person. The page was sent before
// that, and does not ring again.
func (n *Notifier) reportHandOver(ctx context.Context, m notify.Message, ref map[string]string) error {
	open := ref[refStatus] == triggered || ref[refStatus] == acknowledged
	at := handedAt(m)
	o, needs := m.Handed()
	if !open || at == "" || ref[refHanded] == at || !needs {
		return nil
	}
	var err error
	if mark := marker(m) + " needs a person " + at + ":"; n.cfg.Notes() {
		err = n.noteOwn(ctx, m, mark, handedText(m, o, mark))
	} else {
		err = n.recordChange(ctx,
			func(key string) api.ChangeEvent { return changeEvent(key, m, handedSummary(m, o), n.opt.Clock.Now()) })
	}
	if err == nil {
		ref[refHanded] = at
	}
	return err
}

// recordMerge sends a change event about the incident that this one was merged into, for bots that
// cannot write notes. A change event takes the same key, pages no person, and is listed among the
// recent changes of the service and its incidents. A key of an event orchestration accepts none.
func (n *Notifier) recordMerge(ctx context.Context, m notify.Message) error {
	return n.recordChange(ctx, func(key string) api.ChangeEvent { return mergeEvent(key, m, n.opt.Clock.Now()) })
}

func (n *Notifier) recordChange(ctx context.Context, made func(key string) api.ChangeEvent) error {
	key, err := n.opt.RoutingKey()
	if err != nil {
		return notify.Unreadable(err)
	}
	if strings.HasPrefix(key, orchestrationKey) {
		return nil
	}
	if err := n.events.Wait(ctx); err != nil {
		return err
	}
	c, call := n.client("")
	_, _ = c.CreateChangeEventWithContext(ctx, made(key))
	return classify(n.events, call.verdict("change"))
}

// client returns a client for one call. The library's package-level functions know only one
// endpoint and no timeout.
func (n *Notifier) client(token string) (*api.Client, *call) {
	var options []api.ClientOptions
	if n.cfg.EventsURL != "" {
		options = append(options, api.WithV2EventsAPIEndpoint(n.cfg.EventsURL))
	}
	if n.cfg.APIURL != "" {
		options = append(options, api.WithAPIEndpoint(n.cfg.APIURL))
	}
	c := api.NewClient(token, options...)
	call := &call{http: n.opt.HTTP, err: errNotSent}
	c.HTTPClient = call
	return c, call
}

var errNotSent = errors.New("the request could not be made")

// classify makes later calls wait if PagerDuty asked for it.
func classify(l *notify.Limiter, err error) error {
	var later *notify.Later
	if errors.As(err, &later) {
		l.Close(later.After)
	}
	return err
}
