package catalog

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paramedic/internal/pattern"
	"paramedic/internal/text"
	"paramedic/rules/promql"
	"paramedic/state"
)

func (l *loader) alerts(ys []alertYAML) {
	for _, y := range ys {
		switch _, known := l.cat.alerts[y.Name.Value]; {
		case y.Name.Value == "" || y.Symptom == "":
		case known || !l.symptom(y.Name.Line, y.Symptom):
			// A user's entry replaces the built-in one.
		case y.Severity != "" && severity(y.Severity) == "":
			l.bad(y.Name.Line, "alert %s: severity %q is none of critical, warning, info", y.Name.Value, y.Severity)
		default:
			l.cat.alerts[y.Name.Value] = alertRule{Symptom: state.Symptom(y.Symptom), Severity: severity(y.Severity),
				Hints: y.Hints}
		}
	}
}

func (l *loader) metrics(ys []metricYAML) {
	for _, y := range ys {
		if len(y.Any) == 0 || y.Symptom == "" {
			continue
		}
		line := y.Any[0].Line
		if !l.symptom(line, y.Symptom) {
			continue
		}
		if !slices.Contains([]string{"", "above", "below", "zero"}, y.Is) {
			l.bad(line, "is: %q is none of above, below, zero", y.Is)
			continue
		}
		r := MetricRule{Is: y.Is, Also: y.Also, Idle: y.Idle, Func: y.Func, Without: y.Without,
			Label: map[string]*regexp.Regexp{}, Symptom: state.Symptom(y.Symptom), Hints: y.Hints}
		for label, value := range y.Label {
			re, err := pattern.Compile(value)
			if err != nil {
				l.bad(line, "label %s: %v", label, err)
				continue
			}
			r.Label[label] = re
		}
		for _, t := range y.Any {
			r.Any = append(r.Any, t.Value)
		}
		l.patterns(line, slices.Concat(r.Any, r.Also, r.Idle))
		l.functions(line, slices.Concat(r.Func, r.Without))
		l.cat.metrics = append(l.cat.metrics, r)
	}
}

// patterns reports patterns that no metric's name can match.
func (l *loader) patterns(line int, names []string) {
	for _, name := range names {
		if strings.ContainsAny(name, "{}()[]\"'=~ ") {
			l.bad(line, "%q is no name of a metric: give the name alone, with * for anything, and what the selector "+
				"asks for as label", name)
		}
	}
}

// functions reports names that are no PromQL functions.
func (l *loader) functions(line int, names []string) {
	for _, name := range names {
		if known := promql.Functions(); !slices.Contains(known, name) {
			hint := text.DidYouMean(name, known)
			if !strings.HasPrefix(hint, "did you mean") {
				hint = "write it as in an expression, such as rate or absent_over_time"
			}
			l.bad(line, "PromQL has no function %q; %s", name, hint)
		}
	}
}

// notALetter matches the characters that are removed from an alert's name.
var notALetter = regexp.MustCompile(`[^a-z0-9]`)

func (l *loader) words(ys []wordYAML) {
	for _, y := range ys {
		r := wordRule{Symptom: state.Symptom(y.Symptom)}
		for _, t := range y.Any {
			if plain := notALetter.ReplaceAllString(strings.ToLower(t.Value), ""); plain != strings.ToLower(t.Value) {
				l.bad(t.Line, "%q is in no name of an alert, which is read as letters and digits alone: write %s", t.Value,
					strconv.Quote(plain))
			}
			r.Any = append(r.Any, strings.ToLower(t.Value))
		}
		if len(r.Any) > 0 && y.Symptom != "" && l.symptom(y.Any[0].Line, y.Symptom) {
			l.cat.words = append(l.cat.words, r)
		}
	}
}
