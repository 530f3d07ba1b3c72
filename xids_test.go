package paramedic_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"paramedic/rules/catalog"
)

// The playbook, the rule pack and the catalogue must list the same Xids, because the engineer meets
// all three.
func TestXidsAgreeInCataloguePlaybookAndRulePack(t *testing.T) {
	cat, problems, err := catalog.Load("")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	var all []int
	byClass, byNeed := map[string][]int{}, map[string][]int{}
	for _, x := range cat.Xids() {
		all = append(all, x.Code)
		byClass[x.Class] = append(byClass[x.Class], x.Code)
		byNeed[x.Needs] = append(byNeed[x.Needs], x.Code)
	}
	same := func(what string, got, want []int) {
		t.Helper()
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, the catalogue has %v", what, got, want)
		}
	}

	page := read(t, "playbooks/library/gpu_fault.md")
	var rows []int
	for _, m := range regexp.MustCompile(`(?m)^\| ([0-9][^|]*) \|([^|]*)\|([^|]*)\|$`).FindAllStringSubmatch(page, -1) {
		codes := codesIn(t, strings.TrimSpace(m[1]))
		rows = append(rows, codes...)
		for _, code := range codes {
			for need, word := range map[string]string{"reset": "reset the GPU", "reboot": "reboot", "link": "NVLink workflow",
				"none": "nothing", "restart_fabric_manager": "fabric manager",
				"restart_app": "restart the pod", "restart_then_reset": "reset when convenient", "ask_the_driver": "what it says"} {
				if slices.Contains(byNeed[need], code) && !strings.Contains(m[3], word) {
					t.Errorf("the playbook's table says %q of Xid %d, which needs %s", strings.TrimSpace(m[3]), code, need)
				}
			}
		}
	}
	same("the playbook's table", rows, all)

	pack := read(t, "deploy/prometheus/dcgm.yml")
	fatal := regexp.MustCompile(`xid=~"([^"]+)"`).FindAllStringSubmatch(pack, -1)
	rest := regexp.MustCompile(`xid!~"([^"]+)"`).FindAllStringSubmatch(pack, -1)
	if len(fatal) == 0 || len(rest) == 0 {
		t.Fatal("the rule pack does not select Xids any more")
	}
	for _, m := range fatal {
		same("the rule pack's fatal Xids", matching(m[1], all), byClass["hardware"])
	}
	for _, m := range rest {
		same("the rule pack's other Xids", slices.DeleteFunc(slices.Clone(all),
			func(code int) bool { return slices.Contains(matching(m[1], all), code) }), byClass["application"])
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// codesIn parses a list such as "48, 62, 144 to 150 or 158".
func codesIn(t *testing.T, list string) []int {
	t.Helper()
	var out []int
	for _, m := range regexp.MustCompile(`([0-9]+)(?: to ([0-9]+))?`).FindAllStringSubmatch(list, -1) {
		from, _ := strconv.Atoi(m[1])
		to, err := strconv.Atoi(m[2])
		if err != nil {
			to = from
		}
		for code := from; code <= to; code++ {
			out = append(out, code)
		}
	}
	if len(out) == 0 {
		t.Errorf("no Xids in %q", list)
	}
	return out
}

func matching(pattern string, codes []int) []int {
	whole := regexp.MustCompile("^(?:" + pattern + ")$")
	return slices.DeleteFunc(slices.Clone(codes), func(code int) bool { return !whole.MatchString(fmt.Sprint(code)) })
}
