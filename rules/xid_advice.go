package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Spell replaces the placeholder lines of do or avoid by the advice of the worst recovery, for
// readers without a specific GPU.
func (c *Catalog) Spell(lines []string) []string {
	var out []string
	for _, l := range lines {
		switch {
		case l == xidDo && len(c.recoveries) > 0:
			out = append(out, c.recoveries[0].Do...)
		case l == xidAvoid && len(c.recoveries) > 0:
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

// ByXid returns the advice that replaces a placeholder line, the worst Xids first; nil for every
// other line.
func (c *Catalog) ByXid(line string) []XidAdvice {
	if line != xidDo && line != xidAvoid {
		return nil
	}
	var out []XidAdvice
	for _, r := range c.recoveries {
		lines := r.Do
		if line == xidAvoid {
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

// spoken holds the Xid of a text, with its recovery.
type spoken struct {
	code     int // -1: unknown
	beside   []int
	message  string
	recovery *Recovery
	driver   bool // the driver requests it
}

// xid returns the Xid that a text is about: the worst that the GPUs reported within the window, or
// that an alert carried. If there is none and old is set, it returns the one that a gauge still
// shows.
func (c *Catalog) xid(p placeholder, old bool) spoken {
	groups := p.view.gpus
	if p.group != nil && p.group.gpu != "" {
		groups = []*group{p.group}
	}
	out := spoken{code: -1}
	gauge := -1
	for _, g := range groups {
		if b := p.best; b != nil && len(b.gpus) > 0 && (!slices.Contains(b.gpus, g.gpu) || len(b.nodes) > 0 && !slices.Contains(b.nodes, g.node)) {
			continue
		}
		if r := g.reading("gpu_xid"); r != nil && r.value().ok && r.Value > 0 && gauge < 0 {
			gauge = int(r.Value)
		}
		n := p.view.news[g.key]
		if n == nil {
			continue
		}
		if len(n.codes) > 0 && (out.code < 0 || c.worst(n.codes[0], out.code) < 0) {
			out.code, out.beside, out.message = n.codes[0], n.codes[1:], n.message
		}
		if n.driver != nil && n.driver.ID != "none" && (out.recovery == nil || n.driver.rank < out.recovery.rank) {
			out.recovery, out.driver = n.driver, true
		}
	}
	if xids := p.view.facts.xids; out.code < 0 && len(xids) > 0 {
		out.code = xids[0].code
	}
	if n, err := strconv.Atoi(p.view.facts.hints["xid"]); err == nil && old && out.code < 0 && gauge < 0 {
		gauge = n
	}
	if old && out.code < 0 {
		out.code = gauge
	}
	if r := c.askedFor(p.view.facts.hints["gpu_recovery"]); r != nil && r.ID != "none" && out.recovery == nil {
		out.recovery, out.driver = r, true
	}
	if out.recovery == nil {
		out.recovery = c.recovery(c.xids[out.code].Needs)
	}
	return out
}

// xidWord returns the value of a placeholder of the Xid.
func (c *Catalog) xidWord(name string, p placeholder) string {
	t := c.xid(p, true)
	x, listed := c.xids[t.code]
	switch {
	case name == "xid_title" && t.recovery != nil && t.code >= 0:
		return t.recovery.Title
	case name == "xid_title":
		return "GPU fault"
	case name == "xid_beside":
		return companions(t.beside)
	case name == "xid_asks" && !t.driver:
		return "By NVIDIA's table: " + c.xidWord("xid_action", p)
	case t.driver && (name == "xid_asks" || name == "xid_action"):
		return fmt.Sprintf("The driver asks for %q: %s", t.recovery.Driver, t.recovery.Action)
	case t.code < 0:
		return map[string]string{"xid": "of unknown code", "xid_name": "unknown", "xid_meaning": "unknown", "xid_action": "read the kernel log on the node for the Xid"}[name]
	case name == "xid":
		return strconv.Itoa(t.code)
	case !listed && t.message != "" && name == "xid_name":
		return t.message
	case !listed:
		return "not in the table of Xids; see NVIDIA's Xid catalogue"
	case name == "xid_name":
		return x.Name
	case name == "xid_meaning":
		return x.Meaning
	}
	return x.Action
}

func companions(codes []int) string {
	if len(codes) == 0 {
		return ""
	}
	words := make([]string, len(codes))
	for i, code := range codes {
		words[i] = strconv.Itoa(code)
	}
	return ", with Xid " + strings.Join(words, ", ")
}

// advise returns the lines of do or avoid, with the Xid's advice for the placeholder lines.
func (c *Catalog) advise(lines []string, p placeholder) []string {
	var out []string
	for _, line := range lines {
		switch line {
		case xidDo, xidAvoid:
			r := c.xid(p, true).recovery
			if r == nil {
				r = c.recovery("reset") // a GPU fault without an Xid: its memory could not be repaired
			}
			own := r.Do
			if line == xidAvoid {
				own = r.Avoid
			}
			for _, l := range own {
				out = append(out, c.fill(l, p))
			}
		case xidNote:
			if note := c.xidNote(p); note != "" {
				out = append(out, note)
			}
		default:
			out = append(out, c.fill(line, p))
		}
	}
	return out
}

// xidNote describes an Xid if the verdict is not about it: a recent one, or else one that a GPU
// still shows while its worker is not ready. It returns "" if there is none.
func (c *Catalog) xidNote(p placeholder) string {
	p = placeholder{view: p.view}
	if t := c.xid(p, false); t.code >= 0 {
		return c.fill("Xid {xid} ({xid_name}). {xid_asks}.", p)
	}
	for _, g := range p.view.gpus {
		last, ready := g.reading("gpu_xid"), g.reading("pod_ready")
		if last == nil || ready == nil || !ready.value().ok || ready.value().v >= 1 {
			continue
		}
		if x, ok := c.xids[int(last.value().v)]; ok && x.Class == "hardware" {
			p.group = g
			return c.fill("{entity} shows Xid {xid} ({xid_name}), and its worker is not ready. The gauge does not say since when: look into the node's kernel log. {xid_asks}.", p)
		}
	}
	return ""
}
