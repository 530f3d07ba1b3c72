package diagnose

import (
	"paramedic/rules/catalog"
	"paramedic/rules/evidence"
)

// A missingImpact holds the most that missing signals could add for and against a cause, and names
// those signals.
type missingImpact struct {
	gain, loss float64
	sign       float64 // the largest single weight that could be added
	unknown    []string
}

func (s *missingImpact) count(weight float64, unknown []string) {
	s.gain, s.loss, s.sign = s.gain+max(0, weight), s.loss+min(0, weight), max(s.sign, weight)
	s.unknown = append(s.unknown, unknown...)
}

// impactOfMissing adds up evidence that reads one of the signals and has no answer. It also counts
// evidence that holds only because such a signal is missing.
func impactOfMissing(c *catalog.Cause, by []string, v *evidence.View, cat *catalog.Catalog, of []*evidence.Subject) missingImpact {
	var sw missingImpact
	for _, e := range c.Evidence {
		lacking, mute := v.Lacking(by, e.Condition, e.When, cat), mute(cat, by, e, of)
		idle, clear, unclear := false, true, []string(nil)
		if e.Exception != nil {
			idle, clear = e.Exception.Answer(v.Whole())
			unclear = v.Lacking(by, e.Exception, e.Unless, cat)
		}
		if clear && idle || len(lacking)+len(mute)+len(unclear) == 0 {
			continue
		}
		asked := v.Ask(e.Condition, e.Per)
		holds := len(asked.Hits) > 0
		answered := asked.Answered > 0 && asked.Answered == v.Engines(v.Groups(e.Per)) && len(mute) == 0
		switch {
		case holds && e.Per == "" && len(mute) > 0: // only healthy neighbours answered
			sw.count(-e.Weight, mute)
		case !holds && !answered:
			if lacking = append(lacking, mute...); len(lacking) > 0 {
				sw.count(e.Weight, lacking)
				if e.Else != nil {
					sw.count(e.Else.Weight, nil)
				}
			}
		case clear || len(unclear) == 0: // it counts regardless of unless
		case holds:
			sw.count(-e.Weight, unclear)
		case e.Else != nil:
			sw.count(-e.Else.Weight, unclear)
		}
	}
	return sw
}
