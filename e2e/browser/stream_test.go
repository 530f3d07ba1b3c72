package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// A gate is a proxy between browser and bot that counts the open event streams.
type gate struct {
	bot     *bot
	streams atomic.Int64
}

// openGate returns a gate and its address as a bot. The gate replaces the Origin header by the
// bot's own.
func openGate(t *testing.T, b *bot) (*gate, *bot) {
	t.Helper()
	to, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{bot: b}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		if r.In.Header.Get("Origin") != "" {
			r.Out.Header.Set("Origin", b.url)
		}
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/events" {
			g.streams.Add(1)
			defer g.streams.Add(-1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections) // streams do not end by themselves
	t.Cleanup(server.Close)
	return g, &bot{url: server.URL}
}

// has waits until n event streams are open.
func (g *gate) has(tb *tab, n int64) {
	tb.t.Helper()
	until(tb.t, fmt.Sprintf("%d event streams are open", n), func(context.Context) error {
		if is := g.streams.Load(); is != n {
			return fmt.Errorf("%d are", is)
		}
		return nil
	})
}

// incidentPage waits for the demo's incident and returns its page's path.
func incidentPage(tb *tab, b *bot) string {
	tb.t.Helper()
	tb.do(chromedp.Navigate(b.url + "/"))
	tb.is("the incident appears", `document.querySelector("[data-testid=incident-row]")`)
	var path string
	tb.eval(`new URL(document.querySelector("[data-testid=incident-row] a").href).pathname`, &path)
	return path
}

// All tabs of a browser share one stream, so that connections are left for requests.
func TestEightTabsShareOneStream(t *testing.T) {
	t.Parallel()
	g, b := openGate(t, startDemo(t, "--speed", "30", "--seed", "1"))
	tb := openTab(t, b)
	path := incidentPage(tb, b)
	tb.do(chromedp.Navigate("about:blank"))
	var tabs []*tab
	for range 8 {
		tabs = append(tabs, tb.window())
	}
	for i, one := range tabs {
		one.do(chromedp.Navigate(b.url + path))
		one.is(fmt.Sprintf("tab %d is live", i+1), `document.getElementById("live").innerText === "live" && document.querySelector("[data-testid=ack]")`)
		one.eval(`void (window.sameDocument = true)`, nil)
	}
	g.has(tb, 1)
	tabs[7].write(`#actor-incident`, "Grace Hopper")
	tabs[7].press(`[data-testid=ack]`)
	for i, one := range tabs {
		one.is(fmt.Sprintf("tab %d shows who took it", i+1), `window.sameDocument && document.querySelector("[data-testid=acked]").innerText.includes("Grace Hopper")`)
	}
	// The first tab is closed; the others continue.
	tabs[0].close()
	g.bot.post(t, "/api/v1/incidents/"+strings.TrimPrefix(path, "/incidents/")+"/feedback", `{"actor":"Ada","right":true}`)
	for i, one := range tabs[1:] {
		one.is(fmt.Sprintf("tab %d shows what Ada says", i+2),
			`window.sameDocument && document.querySelector("[data-testid=timeline]").innerText.includes("Ada")`)
	}
	g.has(tabs[1], 1)
	for _, one := range tabs[1:] {
		one.clean()
	}
}

// hide simulates that the tab goes to the background or comes back.
func (tb *tab) hide(hidden bool) {
	tb.t.Helper()
	tb.eval(fmt.Sprintf(`Object.defineProperty(document, "hidden", {configurable: true, get: () => %t}); document.dispatchEvent(new Event("visibilitychange"))`, hidden), nil)
}

// A hidden tab holds no stream and fetches nothing. It is up to date when it is shown again.
func TestHiddenTabsHoldNoStream(t *testing.T) {
	t.Parallel()
	g, b := openGate(t, startDemo(t, "--speed", "30", "--seed", "1"))
	tb := openTab(t, b)
	path := incidentPage(tb, b)
	tb.do(chromedp.Navigate(b.url + path))
	tb.is("the page is live", `document.getElementById("live").innerText === "live"`)
	other := tb.window()
	other.do(chromedp.Navigate(b.url + "/"))
	other.is("the other page is live", `document.getElementById("live").innerText === "live"`)
	tb.hide(true)
	g.has(tb, 1) // one of two is visible
	other.hide(true)
	g.has(tb, 0)
	g.bot.post(t, "/api/v1/incidents/"+strings.TrimPrefix(path, "/incidents/")+"/ack", `{"actor":"Ada"}`)
	tb.hide(false)
	g.has(tb, 1)
	tb.is("what happened meanwhile is shown", `document.querySelector("[data-testid=timeline]").innerText.includes("Ada")`)
	tb.clean()
}

// Plain http is no secure context, and a browser may have no shared workers. The page follows the
// incident in both cases.
func TestPagesAreFreshWithoutSecureContext(t *testing.T) {
	t.Parallel()
	g, b := openGate(t, startDemo(t, "--speed", "30", "--seed", "1"))
	b.url = strings.Replace(b.url, "127.0.0.1", "paramedic.test", 1)
	tb := openTab(t, b, chromedp.Flag("host-resolver-rules", "MAP paramedic.test 127.0.0.1"))
	path := incidentPage(tb, b)
	tb.do(chromedp.Navigate(b.url + path))
	tb.is("the context is not secure, and the page live", `!window.isSecureContext && document.getElementById("live").innerText === "live"`)
	g.has(tb, 1)

	old := tb.window()
	old.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`delete window.SharedWorker`).Do(ctx)
		return err
	}), chromedp.Navigate(b.url+path))
	old.is("without shared workers the page asks again and again", `!window.SharedWorker && document.getElementById("live").classList.contains("on")`)
	g.bot.post(t, "/api/v1/incidents/"+strings.TrimPrefix(path, "/incidents/")+"/ack", `{"actor":"Ada"}`)
	for _, one := range []*tab{tb, old} {
		one.is("the page shows who took it", `document.querySelector("[data-testid=timeline]").innerText.includes("Ada")`)
	}
	g.has(tb, 1) // no clean(): on plain http the browser warns that it ignores the opener policy
}

// A storm of entries causes at most one update of a page per second.
func TestStormCostsOneUpdateASecond(t *testing.T) {
	t.Parallel()
	demo := startDemo(t, "--speed", "30", "--seed", "1")
	_, b := openGate(t, demo)
	tb := openTab(t, b)
	path := incidentPage(tb, b)
	tb.do(chromedp.Navigate(b.url + path))
	tb.is("the page is live", `document.getElementById("live").innerText === "live"`)
	tb.eval(`void (window.asked = [], new PerformanceObserver((l) => asked.push(...l.getEntries().filter((e) => e.name.endsWith(location.pathname)).map((e) => e.startTime))).observe({type: "resource"}))`, nil)
	var updates, said int
	for updates < 4 {
		demo.post(t, "/api/v1/incidents/"+strings.TrimPrefix(path, "/incidents/")+"/feedback",
			fmt.Sprintf(`{"actor":"reader %d","right":true}`, said))
		said++
		tb.eval(`asked.length`, &updates)
	}
	tb.is("the last entry is shown", fmt.Sprintf(`document.querySelector("[data-testid=timeline]").innerText.includes("reader %d")`, said-1))
	var closest float64
	tb.eval(`Math.min(...asked.slice(1).map((t, i) => t - asked[i]))`, &closest)
	if closest < 950 {
		t.Errorf("of %d entries two updates came within %.0f ms", said, closest)
	}
	tb.clean()
}

// post sends a request to the bot without a browser.
func (b *bot) post(t *testing.T, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		answer, _ := io.ReadAll(res.Body)
		t.Fatalf("%s answers %s: %s", path, res.Status, answer)
	}
}
