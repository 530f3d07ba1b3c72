package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"paramedic/cmd/paramedic/survey"
	"paramedic/rules/casetest"
	"paramedic/rules/catalog"
)

// testRules runs the cases of a directory, or one case. Each runs against the built-in rules and
// those of --dir, or else those beside the case.
func (c *cli) testRules(dir, cases string) error {
	places, err := casetest.Places(cases)
	if err != nil {
		return err
	}
	results, own := []casetest.CaseResult{}, map[string]bool{}
	catalogs := map[string]*catalog.Catalog{}
	for _, place := range places {
		from := dir
		if from == "" {
			if from, err = casetest.RulesBeside(place, cases); err != nil {
				return err
			}
		}
		catalog := catalogs[from]
		if catalog == nil {
			if catalog, err = c.soundRules(from); err != nil {
				return err
			}
			catalogs[from] = catalog
		}
		if from != "" {
			own[from] = true
		}
		some, err := casetest.RunCasesWith(catalog, place, survey.ReadPages)
		if err != nil {
			return err
		}
		results = append(results, some...)
	}
	if len(results) == 0 {
		return c.noCase(dir, cases)
	}
	failed := 0
	for _, r := range results {
		if !r.OK() {
			failed++
		}
	}
	if c.output == "json" {
		if err := c.json(results); err != nil {
			return err
		}
	} else {
		c.printCases(results)
		with := ""
		if len(own) > 0 {
			with = ", with the rules in " + strings.Join(slices.Sorted(maps.Keys(own)), ", ")
		}
		if failed > 0 {
			fmt.Fprintf(c.out, "%d of %d cases fail%s\n", failed, len(results), with)
		} else {
			hold := fmt.Sprintf("all %d cases pass", len(results))
			if len(results) == 1 {
				hold = "the one case passes"
			}
			fmt.Fprintf(c.out, "%s%s\n", hold, with)
		}
		if filepath.Ext(cases) != ".txtar" {
			c.printUnproven(catalogs, results)
		}
	}
	if failed > 0 {
		return errFinding
	}
	return nil
}

// noCase reports mistakes in rules without a case, and that they have none.
func (c *cli) noCase(dir, cases string) error {
	if dir == "" {
		var err error
		if dir, err = casetest.RulesBeside(cases, cases); err != nil {
			return err
		}
	}
	if _, err := c.soundRules(dir); err != nil {
		return err
	}
	return fmt.Errorf("there is no case (*.txtar) in %s", cases)
}

// printUnproven lists the user's causes that no case expects.
func (c *cli) printUnproven(catalogs map[string]*catalog.Catalog, results []casetest.CaseResult) {
	proven := map[string]bool{}
	for _, r := range results {
		for _, id := range r.Want {
			proven[id] = true
		}
	}
	for _, from := range slices.Sorted(maps.Keys(catalogs)) {
		for _, cause := range catalogs[from].Causes() {
			if from != "" && filepath.Dir(cause.File) == filepath.Clean(from) && !proven[string(cause.ID)] {
				fmt.Fprintf(c.out, "no case tests %s (%s:%d): write one that wants \"cause %s\"\n", cause.ID, cause.File, cause.Line,
					cause.ID)
			}
		}
	}
}

func (c *cli) printCases(results []casetest.CaseResult) {
	for _, r := range results {
		mark := "ok  "
		if !r.OK() {
			mark = "FAIL"
		}
		fmt.Fprintf(c.out, "%s  %s\n", mark, r.Name)
		for _, f := range r.Failures {
			fmt.Fprintf(c.out, "      %s:  %s\n", r.File, f)
		}
	}
}

// soundRules loads the rules with those of a directory, and prints their mistakes.
func (c *cli) soundRules(dir string) (*catalog.Catalog, error) {
	cat, problems, err := catalog.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	for _, p := range problems {
		fmt.Fprintln(c.out, p)
	}
	if len(problems) > 0 {
		return nil, errFinding
	}
	return cat, nil
}
