package catalog

import (
	"slices"

	"paramedic/rules/treatment"
	"paramedic/state"
)

// WorstAdvice replaces the placeholder lines of do or avoid by the advice of the worst recovery,
// for readers without a specific GPU.
func (c *Catalog) WorstAdvice(lines []string) []string {
	var out []string
	for _, l := range lines {
		switch {
		case l == XIDDo && len(c.recoveries) > 0:
			out = append(out, c.recoveries[0].Do...)
		case l == XIDAvoid && len(c.recoveries) > 0:
			out = append(out, c.recoveries[0].Avoid...)
		default:
			out = append(out, l)
		}
	}
	return out
}

// XidAdvice holds the lines that replace a placeholder line after these Xids.
type XidAdvice struct {
	Xids  []int
	Lines []string
}

// AdviceByXid returns the advice that replaces a placeholder line, the worst Xids first; nil for
// every other line.
func (c *Catalog) AdviceByXid(line string) []XidAdvice {
	if line != XIDDo && line != XIDAvoid {
		return nil
	}
	var out []XidAdvice
	for _, r := range c.recoveries {
		lines := r.Do
		if line == XIDAvoid {
			lines = r.Avoid
		}
		if len(lines) == 0 {
			continue
		}
		var codes []int
		for _, x := range c.Xids() {
			if x.Needs == r.ID {
				codes = append(codes, x.Code)
			}
		}
		i := slices.IndexFunc(out, func(a XidAdvice) bool { return slices.Equal(a.Lines, lines) })
		if i < 0 {
			i = len(out)
			out = append(out, XidAdvice{Lines: lines})
		}
		out[i].Xids = append(out[i].Xids, codes...)
		slices.Sort(out[i].Xids)
	}
	return out
}

// Harms returns the treatments that make a cause worse, from the lines that it warns with.
func (c *Catalog) Harms(cause state.Cause) []string {
	var out []string
	if entry, ok := c.Cause(cause); ok {
		for _, line := range c.WorstAdvice(entry.Avoid) {
			out = append(out, treatment.In(line)...)
		}
	}
	return out
}
