package evidence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/catalog"
)

// xidSummary holds the Xid of a text, with its recovery.
type xidSummary struct {
	code     int // -1: unknown
	beside   []int
	message  string
	recovery *catalog.Recovery
	driver   bool // the driver requests it
}

// xid returns the Xid that a text is about: the worst that the GPUs reported within the window, or
// that an alert carried. If there is none and old is set, it returns the one that a gauge still
// shows.
func xid(c *catalog.Catalog, p Words, old bool) xidSummary {
	out, gauge := reportedXid(c, p)
	if xids := p.View.facts.Xids; out.code < 0 && len(xids) > 0 {
		out.code = xids[0].Code
	}
	if n, err := strconv.Atoi(p.View.facts.Hints["xid"]); err == nil && old && out.code < 0 && gauge < 0 {
		gauge = n
	}
	if old && out.code < 0 {
		out.code = gauge
	}
	if r := c.RecoveryFor(p.View.facts.Hints["gpu_recovery"]); r != nil && r.ID != "none" && out.recovery == nil {
		out.recovery, out.driver = r, true
	}
	if out.recovery == nil {
		out.recovery = c.Recovery(c.XidTable()[out.code].Needs)
	}
	return out
}

// reportedXid returns the worst recent Xid of the text's GPUs, with the largest recovery that a
// driver requests. gauge is the first code that a gauge still shows; -1: none does.
func reportedXid(c *catalog.Catalog, p Words) (out xidSummary, gauge int) {
	groups := p.View.gpus
	if p.Group != nil && p.Group.gpu != "" {
		groups = []*Subject{p.Group}
	}
	out, gauge = xidSummary{code: -1}, -1
	for _, g := range groups {
		if b := p.Best; b != nil && len(b.Gpus) > 0 &&
			(!slices.Contains(b.Gpus, g.gpu) || len(b.Nodes) > 0 && !slices.Contains(b.Nodes, g.node)) {
			continue
		}
		if r := g.Reading("gpu_xid"); r != nil && r.CurrentValue().OK && r.Value > 0 && gauge < 0 {
			gauge = int(r.Value)
		}
		n := p.View.news[g.key]
		if n == nil {
			continue
		}
		if len(n.codes) > 0 && (out.code < 0 || c.Worst(n.codes[0], out.code) < 0) {
			out.code, out.beside, out.message = n.codes[0], n.codes[1:], n.message
		}
		if n.driver != nil && n.driver.ID != "none" && (out.recovery == nil || n.driver.Rank < out.recovery.Rank) {
			out.recovery, out.driver = n.driver, true
		}
	}
	return out, gauge
}

// xidWord returns the value of a placeholder of the Xid.
func xidWord(c *catalog.Catalog, name string, p Words) string {
	t := xid(c, p, true)
	x, listed := c.XidTable()[t.code]
	switch {
	case name == "xid_title" && t.recovery != nil && t.code >= 0:
		return t.recovery.Title
	case name == "xid_title":
		return "GPU fault"
	case name == "xid_beside":
		return companions(t.beside)
	case name == "xid_asks" && !t.driver:
		return "By NVIDIA's table: " + xidWord(c, "xid_action", p)
	case t.driver && (name == "xid_asks" || name == "xid_action"):
		return fmt.Sprintf("The driver asks for %q: %s", t.recovery.Driver, t.recovery.Action)
	case t.code < 0:
		return map[string]string{"xid": "of unknown code", "xid_name": "unknown", "xid_meaning": "unknown",
			"xid_action": "read the kernel log on the node for the Xid"}[name]
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

// Advise returns the lines of do or avoid, with the Xid's advice for the placeholder lines.
func Advise(c *catalog.Catalog, lines []string, p Words) []string {
	var out []string
	for _, line := range lines {
		switch line {
		case catalog.XIDDo, catalog.XIDAvoid:
			r := xid(c, p, true).recovery
			if r == nil {
				r = c.Recovery("reset") // a GPU fault without an Xid: its memory could not be repaired
			}
			own := r.Do
			if line == catalog.XIDAvoid {
				own = r.Avoid
			}
			for _, l := range own {
				out = append(out, Fill(c, l, p))
			}
		case catalog.XIDNote:
			if note := XIDNote(c, p); note != "" {
				out = append(out, note)
			}
		default:
			out = append(out, Fill(c, line, p))
		}
	}
	return out
}

// XIDNote describes an Xid if the verdict is not about it: a recent one, or else one that a GPU
// still shows while its worker is not ready. It returns "" if there is none.
func XIDNote(c *catalog.Catalog, p Words) string {
	p = Words{View: p.View}
	if t := xid(c, p, false); t.code >= 0 {
		return Fill(c, "Xid {xid} ({xid_name}). {xid_asks}.", p)
	}
	for _, g := range p.View.gpus {
		last, ready := g.Reading("gpu_xid"), g.Reading("pod_ready")
		if last == nil || ready == nil || !ready.CurrentValue().OK || ready.CurrentValue().V >= 1 {
			continue
		}
		if x, ok := c.XidTable()[int(last.CurrentValue().V)]; ok && x.Class == "hardware" {
			p.Group = g
			return Fill(c, "{entity} shows Xid {xid} ({xid_name}), and its worker is not ready. The gauge has no "+
				"time: check the node's kernel log. {xid_asks}.", p)
		}
	}
	return ""
}
