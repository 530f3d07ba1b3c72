package score

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/machine"
	"paramedic/rules/treatment"
	"paramedic/state"
)

// Every fault of the lab is diagnosed from webhooks and pages alone, in one incident, without
// another name on the way.
func TestLabFaultsAreDiagnosed(t *testing.T) {
	seeds := []uint64{8, 21}
	if testing.Short() {
		seeds = seeds[:1]
	}
	for _, fault := range lab.Faults() {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && !slices.Contains([]string{lab.KVExhaustion, lab.RoutingSkew, lab.GPUFault, lab.BadRollout}, fault) {
				t.Skip("SKIPPED with -short (the race detector makes it ten times as long): played whole by make test")
			}
			for _, seed := range seeds {
				run, err := newTrialOf(kindFault, fault, seed, Options{})
				if err != nil {
					t.Fatal(err)
				}
				run.length, run.enough = 15*time.Minute, 2*time.Minute
				p, err := run.play(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if p.Outcome != "right" || len(p.Misled) > 0 || p.Incidents != 1 || p.ToDiagnosis > 5*time.Minute {
					t.Errorf("seed %d: %s after %s, %d incidents, on the way %v\n%s", seed, p.Outcome, p.ToDiagnosis, p.Incidents, p.Misled,
						p.trace)
				}
				if quiet := fault == lab.BenignAlert; quiet && p.Pages > 0 {
					t.Errorf("seed %d: %d pages for a benign alert", seed, p.Pages)
				}
			}
		})
	}
}

// A fault that ends by itself keeps its name. Draining queues and returning clients are no causes.
func TestEndedFaultKeepsItsName(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: played whole by make test")
	}
	for fault, o := range map[string]struct {
		seed  uint64
		lasts time.Duration
	}{
		lab.KVExhaustion: {92001, 6 * time.Minute}, lab.RoutingSkew: {92001, 6 * time.Minute}, lab.RetryStorm: {92001, 6 * time.Minute},
		lab.LongContextBurst: {92001, 6 * time.Minute}, lab.GPUUnderutilization + "/starved-host": {94002, 10 * time.Minute},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			run, err := newTrialOf(kindFault, fault, o.seed, Options{lasts: o.lasts})
			if err != nil {
				t.Fatal(err)
			}
			p, err := run.play(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if p.Outcome != "right" || p.Incidents != 1 || len(p.Harmful) > 0 {
				t.Errorf("%s, %d incidents, harmful %v\n%s", p.Outcome, p.Incidents, p.Harmful, p.trace)
			}
		})
	}
}

// The worst recent Xid names the fault, for every form of the GPU exporter's page and every later
// Xid. An exporter without counts or labels needs a scrape before the gauge changes; here that
// takes 30 seconds.
func TestGPUFaultIsDiagnosedOnEveryExporter(t *testing.T) {
	for name, form := range map[string]machine.DCGM{"counts": {}, "labels and counts": {Labels: true}, "bare": {Uncounted: true},
		"as a new one is by default": {Labels: true, Uncounted: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && form.Labels != form.Uncounted {
				t.Skip("SKIPPED with -short: played whole by make test")
			}
			s, err := drill.New(lab.GPUFault, 8)
			if err != nil {
				t.Fatal(err)
			}
			s.Config.DCGM, s.Faults[0].Code, s.Faults[0].Then = form, 48, 45
			run, err := trialOf(kindFault, lab.GPUFault, 8, []drill.Scenario{s}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			run.length, run.enough = 15*time.Minute, 4*time.Minute
			p, err := run.play(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var title string
			for _, in := range run.Board.Incidents() {
				if in.Cause() == "gpu_fault" {
					title = in.Title
				}
			}
			if p.Outcome != "right" || p.Incidents != 1 || !strings.Contains(title, "GPU fault on") || !strings.Contains(title, "Xid 48") {
				t.Errorf("%s after %s: %s\n%s", p.Outcome, p.ToDiagnosis, title, p.trace)
			}
		})
	}
}

func TestScoresSumTrials(t *testing.T) {
	leak := func(as, outcome string, p TrialResult) TrialResult {
		p.Kind, p.Fault, p.Outcome, p.Named = kindFault, "kv_leak", outcome, []naming{{"kv_leak", as}}
		return p
	}
	b := Sum([]TrialResult{
		leak("kv_leak", "right", TrialResult{ToDiagnosis: time.Minute, Alerts: 3, Incidents: 1, Pages: 1, Alone: alertmanagerCount{4, 2}}),
		leak("kv_leak", "right", TrialResult{ToDiagnosis: 3 * time.Minute, Misled: []string{"benign_alert"}, Alerts: 1, Incidents: 2}),
		leak("kv_exhaustion", "kv_exhaustion", TrialResult{Alerts: 1, Incidents: 1, False: []string{"kv_exhaustion"},
			Harmful: []string{"it does"}}),
		leak("unknown", "unknown", TrialResult{Alerts: 1, Incidents: 1}),
		leak("silent", "silent", TrialResult{}),
		{Kind: kindDouble, Fault: "kv_leak+gpu_fault", Outcome: "missed",
			Named: []naming{{"kv_leak", "missed"}, {"gpu_fault", "gpu_fault"}}, Incidents: 1, Pages: 1},
		{Kind: kindDecoy, Fault: "load_test", Outcome: "right", Incidents: 1, CalledDecoy: "unknown", Alone: alertmanagerCount{1, 1}},
		{Kind: kindDecoy, Fault: "load_test", Outcome: "gpu_fault", Incidents: 1, False: []string{"gpu_fault"}},
	})
	var out bytes.Buffer
	b.Print(&out)
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	for _, want := range []string{
		"kv_leak 2/5 1 1 1 kv_exhaustion 1 benign_alert 120 s 3/5 1.0 0.2 1 0.8, pages 0.4",
		"load_test 1/2 0 0 1 gpu_fault 0 — — 1.0 0.0 0 0.5, pages 0.5",
		"kv_leak+gpu_fault 0/1 0 0 1 missed 0 — 0/1 1.0 1.0 0 0.0, pages 0.0",
		"gpu_fault 1 1 1 50.0 % 100.0 %",
		"kv_leak 6 2 0 100.0 % 33.3 %",
		"kv_exhaustion 0 0 1 0.0 % —",
		"40.0 % (2 of 5) of the single faults were named, and nothing else was",
		"20.0 % (1 of 5) of them raised no alert",
		"50.0 % (1 of 2) of the faults in pairs were named",
		"50.0 % (1 of 2) of the decoys got no cause but benign_alert",
		"16.7 % (1 of 6) of them got advice that makes a fault worse",
		"All decoys together made 0 pages. Alertmanager alone sent 1.",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
}

// Wrong names have red cells, right ones green.
func TestMatrixCountsVerdictsByFault(t *testing.T) {
	m := matrixOf([]TrialResult{
		{Kind: kindFault, Fault: "kv_leak", Named: []naming{{"kv_leak", "kv_leak"}}},
		{Kind: kindFault, Fault: "kv_leak", Named: []naming{{"kv_leak", "unknown"}}},
		{Kind: kindDecoy, Fault: "load_test", Incidents: 1, False: []string{"gpu_fault"}},
		{Kind: kindDecoy, Fault: "load_test"},
	})
	if got, want := fmt.Sprint(m.Rows, m.Columns, m.Counts), "[kv_leak load_test] [kv_leak gpu_fault unknown none] [[1 0 1 0] [0 "+
		"1 0 1]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Right names form a diagonal, even if one was never given.
	m = matrixOf([]TrialResult{
		{Kind: kindFault, Fault: "kv_leak", Named: []naming{{"kv_leak", "unknown"}}},
		{Kind: kindFault, Fault: "benign_alert", Named: []naming{{"benign_alert", "benign_alert"}}},
		{Kind: kindFault, Fault: "gpu_fault", Named: []naming{{"gpu_fault", "gpu_fault"}}},
	})
	if got, want := fmt.Sprint(m.Rows, m.Columns, m.Counts), "[kv_leak benign_alert gpu_fault] [kv_leak benign_alert gpu_fault unknown] "+
		"[[0 0 0 1] [0 1 0 0] [0 0 1 0]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if right, wrong := m.colour("kv_leak", "kv_leak", 1, 1), m.colour("load_test", "gpu_fault", 1, 1); right != "#16773c" ||
		wrong != "#b42318" {
		t.Errorf("right is %s and wrong is %s", right, wrong)
	}
	if err := xml.Unmarshal(m.SVG(), new(struct{})); err != nil {
		t.Error(err)
	}
}

// Advice is harmful if the true cause's entry warns of it, unless the true cause gives the same
// advice.
func TestHarmfulAdvice(t *testing.T) {
	catalog, library, err := service.LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	a := NewAdviser(catalog, library)
	for _, c := range []struct {
		verdict, truth string
		harm           string // a treatment; empty: none
	}{
		{"kv_exhaustion", "concurrency_cap", "lower max_num_seqs"},
		{"concurrency_cap", "kv_exhaustion", "raise max_num_seqs"},
		{"host_memory_leak", "gpu_fault", "restart a worker"},
		{"kv_exhaustion", "kv_leak", "lower max_num_seqs"},
		{"gpu_fault", "engine_hang", ""},
		{"kv_exhaustion", "kv_exhaustion", ""},
		{"unknown", "kv_exhaustion", ""},
	} {
		in := state.Incident{Diagnosis: state.Diagnosis{Cause: state.Cause(c.verdict)}}
		got := strings.Join(a.Harmful(in.Cause(), a.Given(&in, time.Time{}), c.truth), "; ")
		if c.harm == "" && got != "" || !strings.Contains(got, c.harm) {
			t.Errorf("%s where %s is true: %q, want %q", c.verdict, c.truth, got, c.harm)
		}
	}
	in := state.Incident{Diagnosis: state.Diagnosis{Cause: "kv_exhaustion", Story: state.Story{
		Cautions: []state.Caution{{Treatment: treatment.Tune, Until: time.Unix(300, 0)}}}}}
	harm := func(at int64) []string {
		return a.Harmful(in.Cause(), a.Given(&in, time.Unix(at, 0)), "concurrency_cap")
	}
	if got := harm(299); len(got) > 0 {
		t.Errorf("a step that is held back until 300 is given at 299: %v", got)
	}
	if len(harm(300)) == 0 {
		t.Error("a step that was held back until 300 is not given then")
	}
	for _, cause := range catalog.Causes() {
		for _, s := range catalog.WorstAdvice(cause.Avoid) {
			if len(treatment.In(s)) == 0 {
				t.Logf("%s: no treatment is known in %q", cause.ID, s)
			}
		}
	}
}

// A cause and its playbook read as one story: no setting goes up in one line and down in another.
func TestStoriesTurnASettingOneWay(t *testing.T) {
	catalog, library, err := service.LoadKnowledge(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	turns := func(lines []string) map[string]string {
		out := map[string]string{}
		for _, l := range lines {
			for _, t := range treatment.In(l) {
				if strings.HasPrefix(t, "lower ") || strings.HasPrefix(t, "raise ") {
					out[t] = l
				}
			}
		}
		return out
	}
	opposite := strings.NewReplacer("lower ", "raise ", "raise ", "lower ")
	for _, cause := range catalog.Causes() {
		pb, ok := library.Get(cause.Playbook)
		if !ok {
			t.Fatalf("%s has no playbook", cause.ID)
		}
		do := catalog.WorstAdvice(cause.Do)
		for _, r := range pb.FirstAid {
			do = append(do, r.Text)
		}
		advised := turns(do)
		for treatment, line := range advised {
			if other, ok := advised[opposite.Replace(treatment)]; ok {
				t.Errorf("%s: %q and %q", cause.ID, line, other)
			}
		}
	}
}

// Two faults give two named incidents, on two pools and on two workers of one pool.
func TestDoubleFaultsAreBothNamed(t *testing.T) {
	for _, pair := range []string{"engine_hang+gpu_fault@one", "engine_hang+host_memory_leak@one", "routing_skew+gpu_fault"} {
		t.Run(pair, func(t *testing.T) {
			t.Parallel()
			run, err := newTrialOf(kindDouble, pair, 3, Options{})
			if err != nil {
				t.Fatal(err)
			}
			run.enough = 2 * time.Minute
			p, err := run.play(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if p.Outcome != outcomeRight || p.Incidents != 2 || len(p.Misled) > 0 || len(p.Harmful) > 0 {
				t.Errorf("%s, %d incidents, on the way %v, harmful %v\n%s", p.Outcome, p.Incidents, p.Misled, p.Harmful, p.trace)
			}
		})
	}
}

// Decoys get no cause but benign_alert, and never page.
func TestDecoysAreNotTakenForFaults(t *testing.T) {
	for _, decoy := range lab.Decoys() {
		t.Run(decoy, func(t *testing.T) {
			t.Parallel()
			run, err := newTrialOf(kindDecoy, decoy, 3, Options{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := run.play(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if p.Outcome != outcomeRight || len(p.Misled) > 0 || p.Pages > 0 || p.Alerts == 0 {
				t.Errorf("%s, %d alerts, %d pages, on the way %v\n%s", p.Outcome, p.Alerts, p.Pages, p.Misled, p.trace)
			}
		})
	}
}

// A fault or a decoy that is named twice counts once.
func TestDuplicateTrialsArePlayedOnce(t *testing.T) {
	s := Selection{Seeds: 2, First: 5, Faults: []string{lab.KVLeak, lab.LoadTest, lab.KVLeak}, Decoys: true}
	if got, want := len(s.Trials()), 2*(1+len(lab.Decoys())); got != want {
		t.Errorf("%d trials, want %d", got, want)
	}
}
