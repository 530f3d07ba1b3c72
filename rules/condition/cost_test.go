package condition_test

import (
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"

	"paramedic/rules/condition"
	"paramedic/rules/rulestest"
)

// An expression that would take seconds or more is refused, or has no answer.
func TestCostlyExpressionsAreStopped(t *testing.T) {
	env, err := condition.NewEnvironment(rulestest.MustLoad(t).Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 800)
	for src, want := range map[string]string{
		`[1, 2, 3].all(x, [1, 2, 3].all(y, x > y))`:                               "undeclared reference",
		`[1, 2, 3].exists(x, x > 2)`:                                              "undeclared reference",
		strings.Repeat("true || ", 200) + "true":                                  "1604 characters; 1024 are allowed",
		`role.matches("` + strings.Repeat("(a?){1000}", 60) + `")`:                "and 2000 is the most",
		`matches(role, "` + strings.Repeat(".{1000}", 20) + `")`:                  "and 2000 is the most",
		`role.matches(worker)`:                                                    "matches wants its regular expression as a text in quotes",
		`role.matches("(")`:                                                       "missing closing )",
		fmt.Sprintf(`"%s".matches("%s")`, long, strings.Repeat("a?", 30)):         "",
		fmt.Sprintf(`"%s".matches("%s")`, long, strings.Repeat("a?", 80)):         "no answer",
		fmt.Sprintf(`"%s".matches("%s")`, long[:100], strings.Repeat("a?", 80)):   "",
		fmt.Sprintf(`matches("%s" + "%[1]s", "%s")`, long[:400], "(a?){300}aaaa"): "",
	} {
		x, err := env.Compile(src)
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60s: %v, want %q", src, err, want)
			}
			continue
		}
		if holds, ok := x.Interpret(cel.NoVars()); ok == (want == "no answer") || ok && !holds || want != "" && want != "no answer" {
			t.Errorf("%.60s: holds %t, answered %t, want %q", src, holds, ok, want)
		}
	}
}
