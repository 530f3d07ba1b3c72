package service

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/playbooks"
	"paramedic/rules"
	"paramedic/rules/catalog"
	"paramedic/state"
)

// Knowledge combines the rules, which name a cause, with the playbooks, which advise.
type Knowledge struct {
	rules.Rules
	Library *playbooks.Library
}

// Diagnose returns the verdict of the rules, with the advice of its playbook.
func (k Knowledge) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	d := k.Rules.Diagnose(in, ev, now)
	pb, _ := k.Library.For(d)
	judged := *in
	judged.Diagnosis, judged.Scope = d, d.Scope // what is broken, and not all that the alerts are about
	var evidence state.Evidence
	if ev != nil {
		evidence = *ev
	}
	d.Story, d.Findings = pb.Advise(judged, evidence), playbooks.Findings(judged, evidence)
	return d
}

// LoadRules reads the built-in rules and those of a directory. Its error has every problem.
func LoadRules(dir string) (*catalog.Catalog, error) {
	cat, problems, err := catalog.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	if len(problems) > 0 {
		lines := make([]string, len(problems))
		for i, p := range problems {
			lines[i] = p.String()
		}
		return nil, fmt.Errorf("the rules are invalid:\n%s", strings.Join(lines, "\n"))
	}
	return cat, nil
}

// A knowledgeLoader returns causes and playbooks for a configuration, as [LoadKnowledge] does.
type knowledgeLoader func(config.Config) (*catalog.Catalog, *playbooks.Library, error)

// loadAhead begins to load the knowledge, which keeps a processor busy for a while. The loader
// waits for the result, and MUST NOT be called again.
func loadAhead(cfg config.Config) knowledgeLoader {
	type result struct {
		catalog *catalog.Catalog
		library *playbooks.Library
		err     error
	}
	came := make(chan result, 1)
	go func() {
		cat, library, err := LoadKnowledge(cfg)
		came <- result{cat, library, err}
	}()
	return func(config.Config) (*catalog.Catalog, *playbooks.Library, error) {
		r := <-came
		return r.catalog, r.library, r.err
	}
}

// LoadKnowledge reads causes and playbooks, the built-in ones and the user's. Its error has every
// problem of both.
func LoadKnowledge(cfg config.Config) (*catalog.Catalog, *playbooks.Library, error) {
	cat, problems, err := catalog.Load(cfg.Triage.RulesDir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the rules: %w", err)
	}
	var all []error
	for _, p := range problems {
		all = append(all, errors.New(p.String()))
	}
	library, err := playbooks.Load(cfg.Playbooks.Dir)
	if err != nil {
		all = append(all, err)
	}
	return cat, library, errors.Join(all...)
}
