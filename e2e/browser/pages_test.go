package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The page of an incident appears without a reload. It shows the cause and its evidence, offers
// first aid, and follows the approved action to the end.
func TestPageFollowsIncidentFromAlertToRecovery(t *testing.T) {
	t.Parallel()
	b := startDemo(t, "--speed", "30", "--seed", "1")
	tb := openTab(t, b)
	tb.do(chromedp.Navigate(b.url + "/"))
	tb.shows(`[data-testid=empty]`, "All quiet.")
	tb.shot("index-empty")
	tb.eval(`void (window.sameDocument = true)`, nil)
	tb.is("the incident appears", `document.querySelector("[data-testid=incident-row]")`)
	tb.is("the row has a cause", `document.querySelector("[data-testid=incident-row] [data-testid=cause]").innerText.includes("kv exhaustion")`)
	tb.is("no reload was needed", `window.sameDocument && document.getElementById("live").innerText === "live"`)
	tb.shot("index-open")
	tb.open(`[data-testid=incident-row] a`)
	tb.is("the incident's page is open", `location.pathname.startsWith("/incidents/INC-") && document.querySelector("[data-testid=decide]")`)

	tb.shows(`[data-testid=title]`, "KV cache exhausted on llama-70b")
	tb.shows(`[data-testid=cause]`, "kv exhaustion")
	tb.shows(`[data-testid=sum]`, "Preemptions", "Score")
	tb.shows(`[data-testid=checks]`, "Are the KV blocks used up?", "%")
	tb.shows(`[data-testid=first-aid]`, "lower max_num_seqs")
	tb.shows(`[data-testid=action]`, "max_num_seqs 256 →", "guards allow it")
	if n := tb.count(`[data-testid=charts] svg.chart`); n < 2 {
		t.Errorf("%d charts", n)
	}
	tb.press(`[data-testid=action] details[id^=guards] > summary`)
	tb.shows(`[data-testid=guards]`, "capacity", "workers are ready")
	if n := tb.count(`[data-testid=guards] li`); n < 5 {
		t.Errorf("%d guards are shown with their reasons", n)
	}
	tb.shot("incident-awaiting")

	// A refresh keeps what the reader has opened and typed.
	tb.eval(`void (window.sameDocument = true)`, nil)
	tb.press(`#playbook-body > summary`)
	tb.write(`#actor-incident`, "Grace")
	tb.write(`[data-testid=reason]`, "half a sent")
	tb.is("the page was refreshed meanwhile", refreshed(tb))
	tb.is("what was typed is still there, and the cursor with it", `document.querySelector("[data-testid=reason]").value === "half a sent" &&
		document.activeElement === document.querySelector("[data-testid=reason]") && document.querySelector("#playbook-body").open`)
	tb.write(`[data-testid=reason]`, "ence")
	tb.write(`[data-testid=actor]`, "Grace Hopper")
	tb.press(`[data-testid=approve]`)

	tb.is("what was typed elsewhere outlives the approval", `document.querySelector("[data-testid=action]").dataset.state !== "awaiting_approval" &&
		document.querySelector("#actor-incident").value === "Grace"`)

	seen := map[string]bool{}
	for _, want := range []string{"applied", "verifying", "succeeded"} {
		// The page may miss a state, but never goes back.
		tb.is("the action is "+want, fmt.Sprintf(`(() => { const order = ["awaiting_approval", "approved", "admitted", "intent", "applied", "verifying", "succeeded"];
			const at = order.indexOf(document.querySelector("[data-testid=action]").dataset.state); return at >= order.indexOf(%s); })()`, quote(want)))
		state := tb.text(`[data-testid=action-state]`)
		if !seen[state] {
			tb.shot("incident-" + strings.ReplaceAll(state, " ", "-"))
		}
		seen[state] = true
	}
	if len(seen) < 2 {
		t.Errorf("between approval and success the page only showed %v", seen)
	}
	tb.shows(`[data-testid=verification]`, "Verified: better")
	tb.shows(`[data-testid=steps]`, "Grace Hopper", "half a sentence")
	tb.is("the page was never loaded again, and what the reader opened is open", `window.sameDocument && document.querySelector("#playbook-body").open`)
	tb.fits(390)
	tb.size(1280, 900)
	tb.is("the incident is resolved", `document.querySelector("[data-testid=status]").innerText === "resolved"`)
	tb.is("its charts still show the fault: onset, write, verdict, and the workers that the rollout replaced", `["onset", "verdict", "write", "end"].every((k) =>
		document.querySelector("[data-testid=chart-chart-kv_usage] .mark." + k)) && document.querySelector("[data-testid=chart-chart-kv_usage] .gone")`)
	tb.shot("incident-resolved")
	for _, p := range []struct{ name, path string }{{"index-resolved", "/"}, {"actions", "/actions"}, {"fleet", "/fleet"},
		{"playbooks", "/playbooks"}, {"playbook", "/playbooks/kv_exhaustion"}} {
		tb.do(chromedp.Navigate(b.url + p.path))
		if p.name == "fleet" {
			tb.shows(`[data-testid=pool]`, "vllm-llama", "KV cache", "Latency", "healthy")
		}
		tb.shot(p.name)
		tb.fits(390)
		tb.size(1280, 900)
		tb.clean()
	}
}

// refreshed returns an expression that is true after the script has replaced the content.
func refreshed(tb *tab) string {
	tb.t.Helper()
	tb.eval(`void (document.getElementById("inner").old = true)`, nil)
	return `!document.getElementById("inner").old`
}

// In dark mode, text has enough contrast on every surface.
func TestDarkModeIsReadable(t *testing.T) {
	t.Parallel()
	b := startDemo(t, "--speed", "60", "--fault", "gpu_fault")
	tb := openTab(t, b)
	tb.scheme("dark")
	tb.do(chromedp.Navigate(b.url + "/"))
	tb.is("the incident appears", `document.querySelector("[data-testid=incident-row]")`)
	tb.open(`[data-testid=incident-row] a`)
	tb.is("the verdict is there", `document.querySelector("[data-testid=sum]")`)
	tb.shot("gpu-fault")
	tb.scheme("dark")
	var worst []string
	tb.eval(contrast, &worst)
	for _, w := range worst {
		t.Errorf("too little contrast: %s", w)
	}
	tb.fits(390)
	tb.clean()
}

// contrast lists the texts with less contrast than WCAG's 4.5 to 1, and checks that the page is
// dark.
const contrast = `(() => {
	const parse = (c) => (c.match(/[\d.]+/g) || []).map(Number);
	const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (el) => { for (; el; el = el.parentElement) { const c = parse(getComputedStyle(el).backgroundColor); if (c.length === 3 || c[3] > 0.9) return c; } return [255, 255, 255]; };
	const out = new Set();
	if (light(behind(document.body)) > 0.1) out.add("the page is not dark");
	for (const el of document.querySelectorAll("body *")) {
		if (el.closest("svg, .vh, .skip, :disabled") || ![...el.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !el.checkVisibility()) continue;
		const a = light(parse(getComputedStyle(el).color)), b = light(behind(el));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) out.add(el.tagName + "." + el.className + " " + ratio.toFixed(1) + ": " + el.innerText.slice(0, 40));
	}
	return [...out].slice(0, 10);
})()`
