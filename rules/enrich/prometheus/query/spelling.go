package query

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/promql"
	"paramedic/rules/signals"
)

const (
	// engineMark is the mark of the discovery's part for engines.
	engineMark = "engines"
	// firstMark precedes the name of a part for the first scrapes of engines.
	firstMark = "first"
)

// An engineName is a form of the name that shows that an engine runs.
type engineName struct {
	engine   string
	spelling int // in promql.Spellings
}

// A podName is a name that a pod's engine has.
type podName struct {
	engineName
	pod string
}

// engineNames are the names that show that an engine runs, in all spellings.
type engineNames map[string]engineName

func namesOf(running signals.Signal) engineNames {
	out := engineNames{}
	for _, src := range running.Sources {
		if !slices.Contains(engines, src.Engine) {
			continue
		}
		for i, s := range promql.SpellingsOf(src.Metric) {
			out[s.Of(src.Metric)] = engineName{src.Engine, i}
		}
	}
	return out
}

// selector returns a selector of all names with more matchers.
func (n engineNames) selector(in []string) string {
	names := strings.Join(slices.Sorted(maps.Keys(n)), "|")
	return "{" + strings.Join(append([]string{"__name__=~" + strconv.Quote(names)}, in...), ",") + "}"
}

// spellings returns the forms of each engine's names for pods whose names begin so, the preferred
// first. All of them are read: recording rules may give the preferred form to some metrics only.
// Values of a whole pool are those of the preferred form, also while its workers have several.
func (s *sighting) spellings(prefix string) map[string][]promql.Spelling {
	found := map[engineName]bool{}
	for of := range s.named {
		if strings.HasPrefix(of.pod, prefix) {
			found[of.engineName] = true
		}
	}
	out := map[string][]promql.Spelling{}
	for _, engine := range engines {
		for i, spelling := range promql.Spellings {
			if found[engineName{engine, i}] {
				out[engine] = append(out[engine], spelling)
			}
		}
	}
	return out
}

// addGone adds the names of engines that existed before, and whose pods have no engine now.
func (s *sighting) addGone(before []firstSample) {
	living := map[string]bool{}
	for of := range s.named {
		living[of.pod] = of.pod != ""
	}
	for _, f := range before {
		if !living[f.pod] {
			s.name(podName{f.engineName, f.pod})
		}
	}
}

func (s *sighting) name(of podName) {
	if s.named == nil {
		s.named = map[podName]bool{}
	}
	s.named[of] = true
}

// spellingsOf returns the forms of a source's names in this scope, the preferred first. KServe
// renames whole pages: those of engines, with their processes, and those of routers.
func (n Filter) spellingsOf(src signals.Source) []promql.Spelling {
	own := promql.Spellings[:1]
	if found := n.spelled[src.Engine]; len(found) > 0 {
		return found
	}
	if src.Engine != "process" && src.Engine != "epp" {
		return own
	}
	for _, engine := range engines {
		if i := slices.IndexFunc(n.spelled[engine], promql.Spelling.IsOfPages); i >= 0 {
			return append([]promql.Spelling{n.spelled[engine][i]}, own...)
		}
	}
	return own
}
