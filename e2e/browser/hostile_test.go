package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A label can hold any text, because users name pods and write alert rules. Pages show it as text,
// without running it or breaking the layout.
func TestHostileLabelsAreText(t *testing.T) {
	t.Parallel()
	b := startDemo(t, "--fault", "concurrency_cap", "--speed", "1")
	tb := openTab(t, b)
	script, image, template := `<script>window.owned=1</script>`, `"><img src=x onerror="window.owned=2">`, `{{.Secret}}${7*7}<%= 1 %>`
	endless := strings.Repeat("endless", 60)
	labels := []map[string]string{
		{"alertname": script, "namespace": image, "pod": template, "model_name": endless, endless: script, "severity": "critical"},
		{"alertname": endless, "namespace": script, "pod": endless, "model_name": image, "severity": "warning"},
	}
	var alerts []map[string]any
	for i, l := range labels {
		alerts = append(alerts, map[string]any{"status": "firing", "labels": l, "fingerprint": fmt.Sprintf("%016x", i+1),
			"startsAt": "2026-01-02T03:04:05Z",
			"endsAt":   "0001-01-01T00:00:00Z", "generatorURL": "javascript:window.owned=3",
			"annotations": map[string]string{"summary": script + image + endless}})
	}
	payload, err := json.Marshal(map[string]any{"version": "4", "groupKey": image, "status": "firing", "receiver": "paramedic",
		"groupLabels":  map[string]string{},
		"commonLabels": map[string]string{}, "commonAnnotations": map[string]string{}, "externalURL": "javascript:window.owned=4",
		"alerts": alerts})
	if err != nil {
		t.Fatal(err)
	}
	tb.do(chromedp.Navigate(b.url + "/"))
	b.alert(t, payload)
	tb.is("the hostile incident appears", `document.querySelector("[data-testid=incident-row]")`)
	var pages []string
	tb.eval(`[...document.querySelectorAll("[data-testid=incident-row] a")].map((a) => a.getAttribute("href"))`, &pages)
	pages = append(pages, "/", "/fleet", "/actions")
	text := ""
	for i, path := range pages {
		tb.do(chromedp.Navigate(b.url + path))
		tb.eval(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`, nil)
		text += tb.text("main")
		var bad []string
		tb.eval(`[...document.querySelectorAll("img, iframe, object, embed, [onerror], [onload], [style], a[href^='javascript:'], script:not([src^='/static/'])")].map((e) => e.outerHTML)`, &bad)
		if len(bad) > 0 {
			t.Errorf("%s: labels became markup: %q", path, bad)
		}
		tb.shot(fmt.Sprintf("hostile-%d", i))
		tb.fits(390)
		tb.fits(1280)
	}
	for _, want := range []string{script, `onerror="window.owned=2"`, template} {
		if !strings.Contains(text, want) {
			t.Errorf("no page shows %q as text", want)
		}
	}
	var owned any
	tb.eval(`window.owned === undefined ? "no" : "yes"`, &owned)
	if owned != "no" {
		t.Error("a label ran as a script")
	}
	tb.clean()
}
