package score

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"paramedic/state"
)

// A Scoreboard sums all trials.
type Scoreboard struct {
	First   uint64       `json:"first_seed"`
	Seeds   int          `json:"seeds"`
	Totals  totals       `json:"totals"`
	Faults  []FaultScore `json:"faults"`
	Decoys  []FaultScore `json:"decoys"`
	Doubles []FaultScore `json:"doubles"`
	Causes  []causeScore `json:"causes"`
	Matrix  matrix       `json:"matrix"`
}

// totals holds the figures of a release.
type totals struct {
	Singles          int     `json:"singles"`
	SinglesRight     int     `json:"singles_right"`
	SinglesSilent    int     `json:"singles_silent"` // raised no alert; they count as not right
	InDoubles        int     `json:"faults_in_doubles"`
	InDoublesRight   int     `json:"faults_in_doubles_right"`
	Pairs            int     `json:"doubles"`
	PairsRight       int     `json:"doubles_right"` // both named and nothing else
	Decoys           int     `json:"decoys"`
	DecoysRight      int     `json:"decoys_right"`
	Harmful          int     `json:"harmful"` // runs in which advice was given that makes the fault worse
	OneEach          int     `json:"one_incident_each"`
	Faulty           int     `json:"runs_with_faults"`
	IncidentsPer     float64 `json:"incidents_per_fault"`
	PagesPer         float64 `json:"pages_per_fault"`
	AlertsPer        float64 `json:"alerts_per_fault"`
	AloneMessagesPer float64 `json:"alertmanager_alone_notifications_per_fault"`
	AlonePagesPer    float64 `json:"alertmanager_alone_pages_per_fault"`
	DecoyPages       int     `json:"decoy_pages"`
	DecoyAlonePages  int     `json:"decoy_alertmanager_alone_pages"`
}

// A FaultScore counts the outcomes of one fault, decoy or pair over all seeds.
type FaultScore struct {
	Fault   string         `json:"fault"`
	Runs    int            `json:"runs"`
	Right   int            `json:"right"`
	Unknown int            `json:"unknown"`
	Wrong   map[string]int `json:"wrong"`  // by the cause that was named instead
	Misled  map[string]int `json:"misled"` // causes that were named on the way to another verdict
	// SecondsToDiagnosis is the mean simulated time from the first alert to the last right verdict.
	// It is null if there was none.
	SecondsToDiagnosis *float64      `json:"seconds_to_diagnosis"`
	Silent             int           `json:"silent"`       // runs in which the pool bore the fault and no alert fired
	Missed             int           `json:"missed"`       // runs in which a fault's alerts went to another's incident
	OneIncident        int           `json:"one_incident"` // runs that ended as one incident for each fault
	Incidents          float64       `json:"incidents"`    // that were not merged, in the mean
	Pages              float64       `json:"pages"`        // incidents that PagerDuty was told of, in the mean
	Harmful            int           `json:"harmful"`
	AloneNotifications float64       `json:"alertmanager_alone_notifications"`
	AlonePages         float64       `json:"alertmanager_alone_pages"`
	Trials             []TrialResult `json:"trials"`
}

// A causeScore holds the precision and recall of a cause's name.
type causeScore struct {
	Cause     string   `json:"cause"`
	Injected  int      `json:"injected"`
	Named     int      `json:"named"` // rightly
	False     int      `json:"false"` // named where it was not, decoys included
	Precision *float64 `json:"precision"`
	Recall    *float64 `json:"recall"`
}

// Sum returns the scoreboard of trials.
func Sum(trials []TrialResult) Scoreboard {
	b := Scoreboard{Faults: []FaultScore{}, Decoys: []FaultScore{}, Doubles: []FaultScore{}, Matrix: matrixOf(trials),
		Causes: causeScores(trials)}
	lists := map[string]*[]FaultScore{kindFault: &b.Faults, kindDecoy: &b.Decoys, kindDouble: &b.Doubles}
	for _, p := range trials {
		list := lists[p.Kind]
		i := slices.IndexFunc(*list, func(s FaultScore) bool { return s.Fault == p.Fault })
		if i < 0 {
			i = len(*list)
			*list = append(*list, FaultScore{Fault: p.Fault, Wrong: map[string]int{}, Misled: map[string]int{},
				Trials: []TrialResult{}})
		}
		(*list)[i].add(p)
		b.Totals.add(p)
	}
	for _, list := range lists {
		for i := range *list {
			(*list)[i].mean()
		}
	}
	b.Totals.mean()
	return b
}

func (s *FaultScore) add(p TrialResult) {
	s.Trials = append(s.Trials, p)
	s.Runs++
	switch p.Outcome {
	case outcomeRight:
		s.Right++
	case string(state.Unknown):
		s.Unknown++
	case outcomeSilent:
		s.Silent++
	case outcomeMissed:
		s.Missed++
	default:
		s.Wrong[p.Outcome]++
	}
	for _, cause := range p.Misled {
		s.Misled[cause]++
	}
	if p.Incidents == len(p.Named) {
		s.OneIncident++
	}
	if len(p.Harmful) > 0 {
		s.Harmful++
	}
	s.Incidents += float64(p.Incidents)
	s.Pages += float64(p.Pages)
	s.AloneNotifications += float64(p.Alone.Notifications)
	s.AlonePages += float64(p.Alone.Pages)
}

func (s *FaultScore) mean() {
	n := float64(s.Runs)
	s.Incidents, s.Pages, s.AloneNotifications, s.AlonePages = s.Incidents/n, s.Pages/n, s.AloneNotifications/n,
		s.AlonePages/n
	var took time.Duration
	named := 0
	for _, p := range s.Trials {
		if p.ToDiagnosis > 0 {
			took += p.ToDiagnosis
			named++
		}
	}
	if named > 0 {
		mean := took.Seconds() / float64(named)
		s.SecondsToDiagnosis = &mean
	}
}

func (t *totals) add(p TrialResult) {
	one := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	right := p.Outcome == outcomeRight
	switch p.Kind {
	case kindFault:
		t.Singles++
		one(&t.SinglesRight, right)
		one(&t.SinglesSilent, p.Outcome == outcomeSilent)
	case kindDouble:
		t.Pairs++
		one(&t.PairsRight, right)
		for _, n := range p.Named {
			t.InDoubles++
			one(&t.InDoublesRight, n.As == n.Cause)
		}
	case kindDecoy:
		t.Decoys++
		one(&t.DecoysRight, right)
		t.DecoyPages += p.Pages
		t.DecoyAlonePages += p.Alone.Pages
		return
	}
	one(&t.Harmful, len(p.Harmful) > 0)
	one(&t.OneEach, p.Incidents == len(p.Named))
	t.Faulty++
	t.IncidentsPer += float64(p.Incidents)
	t.PagesPer += float64(p.Pages)
	t.AlertsPer += float64(p.Alerts)
	t.AloneMessagesPer += float64(p.Alone.Notifications)
	t.AlonePagesPer += float64(p.Alone.Pages)
}

func (t *totals) mean() {
	if n := float64(t.Singles + t.InDoubles); n > 0 {
		t.IncidentsPer, t.PagesPer, t.AlertsPer = t.IncidentsPer/n, t.PagesPer/n, t.AlertsPer/n
		t.AloneMessagesPer, t.AlonePagesPer = t.AloneMessagesPer/n, t.AlonePagesPer/n
	}
}

func causeScores(trials []TrialResult) []causeScore {
	by := map[string]*causeScore{}
	of := func(cause string) *causeScore {
		if by[cause] == nil {
			by[cause] = &causeScore{Cause: cause}
		}
		return by[cause]
	}
	for _, p := range trials {
		for _, n := range p.Named {
			of(n.Cause).Injected++
			if n.As == n.Cause {
				of(n.Cause).Named++
			}
		}
		for _, cause := range p.False {
			of(cause).False++
		}
	}
	out := []causeScore{}
	for _, cause := range slices.Sorted(maps.Keys(by)) {
		c := *by[cause]
		c.Precision, c.Recall = share(c.Named, c.Named+c.False), share(c.Named, c.Injected)
		out = append(out, c)
	}
	return out
}

// share returns n of all, or nil if all is 0.
func share(n, all int) *float64 {
	if all == 0 {
		return nil
	}
	v := float64(n) / float64(all)
	return &v
}

// Print prints the scoreboard for people.
func (b Scoreboard) Print(w io.Writer) {
	for _, part := range []struct {
		head string
		list []FaultScore
	}{{"FAULT", b.Faults}, {headDecoys, b.Decoys}, {"DOUBLE FAULT", b.Doubles}} {
		if len(part.list) > 0 {
			printScores(w, part.head, part.list)
			fmt.Fprintln(w)
		}
	}
	if len(b.Causes) > 0 {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "CAUSE\tINJECTED\tNAMED\tFALSELY NAMED\tPRECISION\tRECALL")
		for _, c := range b.Causes {
			fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%s\t%s\n", c.Cause, c.Injected, c.Named, c.False, percent(c.Precision),
				percent(c.Recall))
		}
		tw.Flush()
		fmt.Fprintln(w)
	}
	b.Totals.print(w)
}

func (t totals) print(w io.Writer) {
	line := func(n, all int, text string) {
		if all > 0 {
			fmt.Fprintf(w, "%s (%d of %d) %s\n", percent(share(n, all)), n, all, text)
		}
	}
	line(t.SinglesRight, t.Singles, "of the single faults were named, and nothing else was")
	if t.SinglesSilent > 0 {
		line(t.SinglesSilent, t.Singles, "of them raised no alert")
	}
	line(t.InDoublesRight, t.InDoubles, "of the faults in pairs were named")
	line(t.PairsRight, t.Pairs, "of the pairs had both faults named, and nothing else")
	line(t.DecoysRight, t.Decoys, "of the decoys got no cause but benign_alert")
	line(t.OneEach, t.Faulty, "of the runs with faults ended with one incident for each fault")
	line(t.Harmful, t.Faulty, "of them got advice that makes a fault worse")
	if t.Faulty > 0 {
		fmt.Fprintf(w, "A fault made %.1f alerts, %.2f incidents and %.2f pages. Alertmanager alone sent %.1f "+
			"notifications and %.2f pages, without a cause.\n",
			t.AlertsPer, t.IncidentsPer, t.PagesPer, t.AloneMessagesPer, t.AlonePagesPer)
	}
	if t.Decoys > 0 {
		fmt.Fprintf(w, "All decoys together made %d pages. Alertmanager alone sent %d.\n", t.DecoyPages,
			t.DecoyAlonePages)
	}
}

// headDecoys is the heading of the decoys' table.
const headDecoys = "DECOY"

func printScores(w io.Writer, head string, scores []FaultScore) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, head+"\tRIGHT\tUNKNOWN\tSILENT\tWRONG\tMISLED\tTO DIAGNOSIS\tONE "+
		"INCIDENT\tINCIDENTS\tPAGES\tHARMFUL\tALERTMANAGER ALONE")
	for _, s := range scores {
		took := "—"
		if s.SecondsToDiagnosis != nil {
			took = fmt.Sprintf("%.0f s", *s.SecondsToDiagnosis)
		}
		wrong := maps.Clone(s.Wrong)
		if s.Missed > 0 {
			wrong[outcomeMissed] = s.Missed
		}
		one := "—" // a decoy has no fault to count incidents by
		if head != headDecoys {
			one = fmt.Sprintf("%d/%d", s.OneIncident, s.Runs)
		}
		fmt.Fprintf(tw, "%s\t%d/%d\t%d\t%d\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%d\t%.1f, pages %.1f\n", s.Fault, s.Right,
			s.Runs, s.Unknown, s.Silent, tally(wrong),
			tally(s.Misled), took, one, s.Incidents, s.Pages, s.Harmful, s.AloneNotifications, s.AlonePages)
	}
	tw.Flush()
}

func percent(v *float64) string {
	if v == nil {
		return "—"
	}
	return fmt.Sprintf("%.1f %%", 100**v)
}

func tally(n map[string]int) string {
	if len(n) == 0 {
		return "0"
	}
	var out []string
	for _, k := range slices.SortedFunc(maps.Keys(n),
		func(a, b string) int { return cmp.Or(n[b]-n[a], strings.Compare(a, b)) }) {
		out = append(out, fmt.Sprintf("%d %s", n[k], k))
	}
	return strings.Join(out, ", ")
}
