// Package paramedic_test checks the repository's structure: imports between packages, imports of
// vendors' packages, and that causes, playbooks, cases and proofs exist together.
package paramedic_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"paramedic/rules/casetest"
	"paramedic/rules/catalog"
)

// A file is one Go file of the product with its imports.
type file struct {
	path, dir string
	doc       bool
	name      string
	test      bool
	imports   []string
}

func files(t *testing.T) []file {
	t.Helper()
	var out []file
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (path == "e2e" || path == "tools" || d.Name() == "testdata" || (strings.HasPrefix(d.Name(), ".") && path != ".")) {
			return filepath.SkipDir // modules of their own, data, and what git ignores
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		f := file{path: path, dir: filepath.ToSlash(filepath.Dir(path)), name: parsed.Name.Name, doc: parsed.Doc != nil,
			test: strings.HasSuffix(path, "_test.go")}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, name)
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// may lists the product's packages that each room may import. A room includes the packages below
// it, which may import each other.
var may = map[string][]string{
	"internal":         {}, // leaves that every room but state may import
	"state":            {},
	"state/fold":       {"state"},
	"state/keeper":     {"state", "state/fold"},
	"state/jetstream":  {"state"},
	"state/outbox":     {"state", "state/keeper/agenda"},
	"state/archive":    {"state"},
	"state/statetest":  {"state"},
	"playbooks":        {"state", "rules/treatment"},
	"webhook":          {"state"},
	"rules":            {"state"}, // the façade of the rooms below it
	"notify":           {"state"},
	"remediate":        {"state", "state/outbox", "playbooks"}, // and the rooms below it
	"lab":              {},
	"notify/slack":     {"state", "notify"},
	"notify/pagerduty": {"state", "notify"},
	"notify/console":   {"state", "notify"},
	"notify/web":       {"state", "notify"},
	"notify/wording":   {"state", "notify"},

	"state/jetstream/inspect": {"state/jetstream", "state/jetstream/connect"}, // the store never imports it

	"notify/notifytest":              {"notify"},
	"notify/slack/slacktest":         {"notify/notifytest"},
	"notify/pagerduty/pagerdutytest": {"notify/notifytest"},

	// The parts of a fleet, which lab joins, and what is played with fleets.
	"lab/metrics":  {},
	"lab/clock":    {},
	"lab/engine":   {"lab/metrics"},
	"lab/traffic":  {"lab/engine"},
	"lab/machine":  {"lab/engine", "lab/metrics"},
	"lab/front":    {"lab/engine", "lab/metrics"},
	"lab/scrape":   {"lab", "lab/metrics"},
	"lab/drill":    {"lab", "lab/engine", "lab/traffic"},
	"lab/story":    {"lab", "lab/drill", "lab/engine", "lab/front", "lab/traffic"},
	"lab/alerting": {"lab", "lab/clock", "lab/engine", "lab/front"},

	"remediate/cluster":       {},
	"remediate/engineflag":    {"remediate/cluster"},
	"remediate/policy":        {"state", "playbooks"},
	"remediate/verify":        {"state"},
	"remediate/guard":         {"state", "playbooks", "remediate/cluster", "remediate/engineflag", "remediate/policy", "remediate/verify"},
	"remediate/kube":          {"remediate/cluster"},
	"remediate/simcluster":    {"state", "remediate/cluster"},
	"remediate/remediatetest": {"state", "state/statetest", "playbooks", "remediate/cluster", "remediate/policy"},

	"cmd/paramedic":          nil, // wires all
	"cmd/paramedic/config":   {},
	"cmd/paramedic/tracing":  {"state", "state/keeper", "state/outbox"},
	"cmd/paramedic/service":  {"cmd/paramedic/config", "cmd/paramedic/tracing"},
	"cmd/paramedic/survey":   {"cmd/paramedic/service"},
	"cmd/paramedic/backtest": {"cmd/paramedic/config", "cmd/paramedic/service", "cmd/paramedic/survey"},
	"cmd/paramedic/transfer": {"cmd/paramedic/config", "cmd/paramedic/service"},
	"cmd/paramedic/client":   {"cmd/paramedic/printing", "cmd/paramedic/service"},
	"cmd/paramedic/printing": {"state", "webhook/report"},
	"cmd/paramedic/tune":     {"state", "remediate"},
	"cmd/paramedic/score":    {"cmd/paramedic/config", "cmd/paramedic/service"},
	"cmd/paramedic/demo":     {"cmd/paramedic/config", "cmd/paramedic/service", "cmd/paramedic/score"},

	"rules/signals":    {"state"},
	"rules/promql":     {},
	"rules/treatment":  {},
	"rules/topology":   {"state"},
	"rules/condition":  {"state"},
	"rules/catalog":    {"state", "rules/condition", "rules/promql", "rules/signals", "rules/treatment"},
	"rules/evidence":   {"state", "rules/catalog", "rules/condition", "rules/signals", "rules/topology"},
	"rules/classify":   {"state", "rules/catalog", "rules/promql", "rules/topology"},
	"rules/correlate":  {"state", "rules/catalog", "rules/topology"},
	"rules/bottleneck": {"state", "rules/catalog", "rules/condition", "rules/evidence"},
	"rules/deviation":  {"state", "rules/catalog", "rules/condition", "rules/evidence", "rules/signals"},
	"rules/diagnose": {"state", "rules/bottleneck", "rules/catalog", "rules/condition", "rules/deviation", "rules/evidence", "rules/health", "rules/signals",
		"rules/topology", "rules/treatment"},
	"rules/health":    {"state", "rules/bottleneck", "rules/catalog", "rules/condition", "rules/evidence", "rules/topology"},
	"rules/lint":      {"state", "rules/promql"},
	"rules/casetest":  {"state", "rules/catalog", "rules/classify", "rules/condition", "rules/correlate", "rules/diagnose", "rules/evidence"},
	"rules/rulestest": {"state", "rules/catalog", "rules/classify", "rules/signals"},
	"rules/enrich":    {"state", "rules/lint", "rules/promql", "rules/signals", "rules/topology"},

	"rules/lint/threshold":          {"rules/promql"},
	"rules/enrich/prometheus/query": {"state", "rules/promql", "rules/signals", "rules/topology"}, // but not rules/enrich

	"webhook/httpio":       {},
	"webhook/hooktest":     {"state", "state/statetest", "webhook", "webhook/access", "webhook/api", "webhook/chat", "webhook/httpio"},
	"webhook/report":       {"state"},
	"webhook/stats":        {"state"},
	"webhook/access":       {"state", "webhook/httpio"},
	"webhook/alertmanager": {"state", "webhook/httpio"},
	"webhook/pagerduty":    {"state", "webhook/httpio"},
	"webhook/command":      {"state", "webhook/httpio"},
	"webhook/api":          {"state", "webhook/access", "webhook/command", "webhook/httpio", "webhook/report", "webhook/stats"},
	"webhook/chat":         {"state", "webhook/access", "webhook/command", "webhook/httpio", "webhook/report"},
}

// wiring lists the packages below a command that may import every room, and of their siblings those
// in the table.
var wiring = []string{"cmd/paramedic/config", "cmd/paramedic/service", "cmd/paramedic/survey", "cmd/paramedic/score", "cmd/paramedic/demo",
	"cmd/paramedic/backtest", "cmd/paramedic/transfer", "cmd/paramedic/client"}

func TestRoomsImportOnlyPlannedRooms(t *testing.T) {
	for _, f := range files(t) {
		room, allowed := roomOf(f.dir)
		if room == "" {
			if f.dir != "." {
				t.Errorf("%s: the folder belongs to no room in house_test.go; see docs/decisions", f.path)
			}
			continue
		}
		if room == "cmd/paramedic" || f.test {
			continue
		}
		for _, imp := range f.imports {
			own, ok := strings.CutPrefix(imp, "paramedic/")
			if !ok || strings.HasPrefix(own, room) || strings.HasPrefix(own, "internal/") || slices.Contains(allowed, own) {
				continue
			}
			if slices.Contains(wiring, room) && !strings.HasPrefix(own, "cmd/") {
				continue
			}
			t.Errorf("%s imports %s: %s may import %v", f.path, imp, room, allowed)
		}
	}
}

// roomOf returns the longest planned room that contains a folder, and what it may import.
func roomOf(dir string) (string, []string) {
	for room := dir; room != "."; room = filepath.ToSlash(filepath.Dir(room)) {
		if allowed, ok := may[room]; ok {
			return room, allowed
		}
	}
	return "", nil
}

// vendors may be imported only below these folders.
var vendors = map[string][]string{
	"github.com/nats-io/":              {"state/jetstream"},
	"github.com/slack-go/":             {"notify/slack", "webhook/chat"},
	"github.com/PagerDuty/":            {"notify/pagerduty", "webhook/pagerduty"},
	"go.opentelemetry.io/":             {"cmd/paramedic/tracing"},
	"k8s.io/":                          {"rules/enrich/kubernetes", "remediate/kube"},
	"github.com/prometheus/prometheus": {"rules", "lab", "cmd/paramedic/backtest"}, // the last in tests only

	"github.com/prometheus/alertmanager/template": {"lab/alerting", "notify/wording", "webhook/alertmanager"},
}

func TestVendorsStayInTheirAdapters(t *testing.T) {
	for _, f := range files(t) {
		for _, imp := range f.imports {
			for vendor, homes := range vendors {
				if strings.HasPrefix(imp, vendor) &&
					!slices.ContainsFunc(homes, func(h string) bool { return f.dir == h || strings.HasPrefix(f.dir, h+"/") }) {
					t.Errorf("%s imports %s: only %v may", f.path, imp, homes)
				}
			}
		}
	}
}

// besideStrictYAML lists the files that import a YAML package, although internal/strictyaml reads
// every YAML file of a person. Each has its reason.
var besideStrictYAML = map[string]string{
	"lab/alerting/rules.go":          "writes only",
	"notify/slack/manifest.go":       "writes only",
	"rules/enrich/kubernetes/ray.go": "reads Ray's format, most keys of which do not matter",
}

// decodesYAML matches the entry points of decoders.
var decodesYAML = regexp.MustCompile(`\byaml\.(Unmarshal|NewDecoder|NewYAML|Node)|\.Decode\(`)

func TestOnlyStrictYAMLReadsYAML(t *testing.T) {
	left := maps.Clone(besideStrictYAML)
	for _, f := range files(t) {
		if f.test || f.dir == "internal/strictyaml" || !slices.ContainsFunc(f.imports, func(imp string) bool {
			return strings.Contains(imp, "yaml") && !strings.HasPrefix(imp, "paramedic/")
		}) {
			continue
		}
		reason, ok := left[f.path]
		delete(left, f.path)
		src, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		if !ok || reason == "writes only" && decodesYAML.Match(src) {
			t.Errorf("%s imports a YAML package: read files with internal/strictyaml, or add the reason to besideStrictYAML", f.path)
		}
	}
	for path := range left {
		t.Errorf("%s imports no YAML package: remove it from besideStrictYAML", path)
	}
}

func TestStateImportsTheStandardLibraryOnly(t *testing.T) {
	for _, f := range files(t) {
		if f.dir != "state" || f.test {
			continue
		}
		for _, imp := range f.imports {
			if strings.Contains(strings.Split(imp, "/")[0], ".") || strings.HasPrefix(imp, "paramedic/") {
				t.Errorf("%s imports %s", f.path, imp)
			}
		}
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	documented, name := map[string]bool{}, map[string]string{}
	for _, f := range files(t) {
		if !f.test {
			documented[f.dir] = documented[f.dir] || f.doc
			name[f.dir] = f.name
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(name)) {
		if !documented[dir] {
			t.Errorf("package %s has no doc comment", dir)
		}
		if slices.Contains([]string{"types", "util", "utils", "common", "helpers", "manager"}, name[dir]) {
			t.Errorf("package %s has too general a name", dir)
		}
	}
}

// mostLines is the limit of a package without tests, and larger the packages with their own limit
// (docs/decisions, 0018).
const mostLines = 2500

var larger = map[string]int{"state/jetstream": 4100, "state/fold": 3800, "state": 3100, "cmd/paramedic": 2700, "rules/lint": 2600,
	"rules/enrich": 2550}

func TestPackagesStaySmall(t *testing.T) {
	lines := map[string]int{}
	for _, f := range files(t) {
		if f.test {
			continue
		}
		raw, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		lines[f.dir] += strings.Count(string(raw), "\n")
	}
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		if most := max(mostLines, larger[dir]); lines[dir] > most {
			t.Errorf("%s has %d lines, and may have %d: move what has a reason of its own to a package below it", dir, lines[dir], most)
		}
	}
}

func TestEveryCauseHasItsPlaybookAndItsCase(t *testing.T) {
	cat, problems, err := catalog.Load("")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	cases, err := casetest.RunCases(cat, "rules/casetest/testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	missing := casetest.Partners(cat, cases, func(id string) bool {
		_, err := os.Stat(filepath.Join("playbooks/library", id+".md"))
		return err == nil
	})
	for _, m := range missing {
		t.Error(m)
	}
}

// Each proof in docs/coverage.md must be a test of the repository or a case of the rules.
func TestCoverageNamesExistingProofs(t *testing.T) {
	raw, err := os.ReadFile("docs/coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".txtar"):
			known[strings.TrimSuffix(d.Name(), ".txtar")] = true
		case strings.HasSuffix(path, "_test.go"):
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range testName.FindAllSubmatch(src, -1) {
				known[string(m[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	proofs := 0
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			proofs++
			if !known[m[1]] {
				t.Errorf("there is no test or case %s", m[1])
			}
		}
	}
	if proofs < 50 {
		t.Errorf("only %d proofs were found: has the table changed its form?", proofs)
	}
}

var (
	testName = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	quoted   = regexp.MustCompile("`([A-Za-z0-9_]+)`")
)
