package notify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
)

var all = []state.Channel{state.ChannelConsole, state.ChannelSlack, state.ChannelPagerDuty}

func TestDefaultRoutes(t *testing.T) {
	r, err := NewRouter(nil, all)
	if err != nil {
		t.Fatal(err)
	}
	paged := state.ToldByOf(map[state.Channel]state.Told{state.ChannelPagerDuty: {Rev: 1}})
	for _, c := range []struct {
		name string
		in   state.Incident
		want []state.Channel
	}{
		{"critical pages", state.Incident{Severity: state.Critical}, []state.Channel{"pagerduty", "slack", "console"}},
		{"warning posts", state.Incident{Severity: state.Warning}, []state.Channel{"slack", "console"}},
		{"info is logged", state.Incident{Severity: state.Info}, []state.Channel{"console"}},
		{"benign never pages", state.Incident{Severity: state.Critical, Diagnosis: state.Diagnosis{Cause: state.BenignAlert}},
			[]state.Channel{"slack", "console"}},
		{"who was paged hears the end", state.Incident{Severity: state.Info, Diagnosis: state.Diagnosis{Cause: state.BenignAlert},
			Told: paged}, []state.Channel{"pagerduty", "console"}},
	} {
		if got := r.Channels(&c.in); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Undiagnosed incidents of healthy users, idle GPUs and benign alerts post. A route that names the
// cause decides otherwise, except for benign alerts.
func TestQuietIncidentsPostInsteadOfPaging(t *testing.T) {
	page, post := []state.Channel{"pagerduty", "slack", "console"}, []state.Channel{"slack", "console"}
	pager := []state.Channel{"pagerduty"}
	of := func(cause state.Cause, i state.Impact) state.Incident {
		return state.Incident{Severity: state.Critical, Diagnosis: state.Diagnosis{Cause: cause, Impact: i}}
	}
	told := of(state.Unknown, state.ImpactNone)
	told.Told = state.ToldByOf(map[state.Channel]state.Told{state.ChannelPagerDuty: {Rev: 1}})
	handed := of(state.Unknown, state.ImpactNone)
	handed.HandedAt = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	critical := []Route{{Severity: []state.Severity{state.Critical}, Channels: pager}}
	named := []Route{{Cause: []state.Cause{state.Unknown, state.GPUUnderutilization, state.BenignAlert}, Channels: pager}}
	for name, c := range map[string]struct {
		routes []Route
		in     state.Incident
		want   []state.Channel
	}{
		"unknown, users are well":            {nil, of(state.Unknown, state.ImpactNone), post},
		"unknown, users suffer":              {nil, of(state.Unknown, state.ImpactFelt), page},
		"unknown, users are not measured":    {nil, of(state.Unknown, state.ImpactUnknown), page},
		"no verdict yet":                     {nil, of("", ""), page},
		"a named cause, users are well":      {nil, of("gpu_fault", state.ImpactNone), page},
		"idle GPUs":                          {nil, of(state.GPUUnderutilization, state.ImpactFelt), post},
		"it paged before":                    {nil, told, page},
		"first aid needs a person":           {nil, handed, page},
		"the pager is the only channel":      {critical, of(state.Unknown, state.ImpactNone), post},
		"a route names unknown":              {named, of(state.Unknown, state.ImpactNone), pager},
		"a route names idle GPUs":            {named, of(state.GPUUnderutilization, state.ImpactNone), pager},
		"a route names benign alerts":        {named, of(state.BenignAlert, state.ImpactFelt), post},
		"only a severity, and users suffer":  {critical, of(state.Unknown, state.ImpactFelt), pager},
		"only a severity, and GPUs are idle": {critical, of(state.GPUUnderutilization, state.ImpactFelt), post},
	} {
		r, err := NewRouter(c.routes, all)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Channels(&c.in); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// An unfinished write is urgent at any severity of the incident. The routes decide whom it pages.
func TestRunThatNeedsAPersonIsRoutedAsCritical(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	standard, err := NewRouter(nil, all)
	if err != nil {
		t.Fatal(err)
	}
	own, err := NewRouter([]Route{
		{Severity: []state.Severity{"critical"}, Pool: "batch", Channels: []state.Channel{"slack"}},
		{Pool: "batch", Channels: []state.Channel{"console"}},
	}, all)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		router *Router
		in     state.Incident
		want   []state.Channel
	}{
		"a warning": {standard, state.Incident{Severity: state.Warning}, []state.Channel{"pagerduty", "slack", "console"}},
		"a benign alert": {standard, state.Incident{Severity: state.Info, Diagnosis: state.Diagnosis{Cause: state.BenignAlert}},
			[]state.Channel{"pagerduty", "slack", "console"}},
		"one's own route": {own, state.Incident{Severity: state.Warning, Scope: state.Scope{Pool: "batch"}},
			[]state.Channel{"slack", "console"}},
	} {
		c.in.HandedAt = at
		if got := c.router.Channels(&c.in); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRoutesMatchInOrder(t *testing.T) {
	r, err := NewRouter([]Route{
		{Cause: []state.Cause{"gpu_fault"}, Cluster: "prod", Channels: []state.Channel{"pagerduty"}},
		{Severity: []state.Severity{"critical"}, Pool: "batch", Channels: []state.Channel{"console"}},
	}, all)
	if err != nil {
		t.Fatal(err)
	}
	fault := state.Incident{Cluster: "prod", Severity: state.Warning, Diagnosis: state.Diagnosis{Cause: "gpu_fault"}}
	batch := state.Incident{Cluster: "prod", Severity: state.Critical, Scope: state.Scope{Pool: "batch"}}
	if got := r.Channels(&fault); !cmp.Equal(got, []state.Channel{"pagerduty"}) {
		t.Errorf("gpu_fault: %v", got)
	}
	if got := r.Channels(&batch); !cmp.Equal(got, []state.Channel{"console"}) {
		t.Errorf("batch: %v", got)
	}
}

// A gateway's failure reaches the people of every pool behind it.
func TestRoutesOfAllPoolsCount(t *testing.T) {
	r, err := NewRouter([]Route{{Model: "bge-m3", Channels: []state.Channel{state.ChannelPagerDuty}},
		{Channels: []state.Channel{state.ChannelSlack}}}, known)
	if err != nil {
		t.Fatal(err)
	}
	in := state.Incident{Severity: state.Warning, Scope: state.Scope{Namespace: "llm", Pool: "chat"},
		Diagnosis: state.Diagnosis{Cause: state.GatewayFailure}}
	if got := r.Channels(&in); !slices.Equal(got, []state.Channel{state.ChannelSlack}) {
		t.Errorf("one pool: %v", got)
	}
	in.Pools = []state.PoolName{{Namespace: "llm", Pool: "chat"}, {Namespace: "llm", Pool: "search", Model: "bge-m3"}}
	if got := r.Channels(&in); !slices.Equal(got, []state.Channel{state.ChannelPagerDuty, state.ChannelSlack}) {
		t.Errorf("two pools: %v", got)
	}
}

func TestRouterReportsEveryProblem(t *testing.T) {
	_, err := NewRouter([]Route{
		{Severity: []state.Severity{"urgent"}},
		{Channels: []state.Channel{"pager", "slack"}},
	}, []state.Channel{"console"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`severity "urgent"`, "channels is empty", `channel "pager"`, "notify.routes[1]: channel slack is not configured"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}
