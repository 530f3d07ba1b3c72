package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// A tab is one page of a real browser, with the browser's complaints.
type tab struct {
	t    *testing.T
	ctx  context.Context
	host string

	mu    sync.Mutex
	wrong []string
}

// openTab starts a browser. Tests share no cache, cookies or storage.
func openTab(t *testing.T, b *bot, options ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	chromium := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		t.Fatal("no Chromium: apt-get install chromium")
	}
	// A test's context ends before its cleanups run, and would kill the browser instead of closing
	// it. The allocator creates and removes the profile's folder, because Chromium's helpers may
	// still write there for a moment after its end.
	options = append(options, chromedp.ExecPath(chromium), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.WSURLReadTimeout(patience))
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("closing the browser: %v", err)
		}
		end()
		stop()
	})
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	tb := &tab{t: t, ctx: ctx, host: u.Host}
	tb.begin()
	return tb
}

// window opens another window of the same browser. Both are visible at once and share its storage.
func (tb *tab) window() *tab {
	tb.t.Helper()
	var id target.ID
	tb.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		id, err = target.CreateTarget("about:blank").WithNewWindow(true).Do(cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser))
		return err
	}))
	ctx, end := chromedp.NewContext(tb.ctx, chromedp.WithTargetID(id))
	tb.t.Cleanup(end)
	other := &tab{t: tb.t, ctx: ctx, host: tb.host}
	other.begin()
	return other
}

// close closes a window as a reader does. The browser continues.
func (tb *tab) close() {
	tb.t.Helper()
	tb.do(page.Close())
}

// begin listens to the browser's events of the tab.
func (tb *tab) begin() {
	tb.t.Helper()
	chromedp.ListenTarget(tb.ctx, tb.hear)
	tb.do(network.Enable(), cdplog.Enable(), runtime.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		// The browser reports violations of the content security policy to the page, which keeps
		// them for the test.
		_, err := page.AddScriptToEvaluateOnNewDocument(`window.violations = [];
			addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI));`).Do(ctx)
		return err
	}))
	tb.size(1280, 900)
}

// hear records console errors, exceptions, and requests to other hosts.
func (tb *tab) hear(event any) {
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError || e.Entry.Level == cdplog.LevelWarning {
			tb.note("console: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			tb.note("console: %v", e.Args)
		}
	case *runtime.EventExceptionThrown:
		tb.note("exception: %v", e.ExceptionDetails)
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err == nil && u.Scheme != "data" && u.Host != tb.host {
			tb.note("a request to another host: %s", e.Request.URL)
		}
	}
}

func (tb *tab) note(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.wrong = append(tb.wrong, fmt.Sprintf(format, args...))
}

// clean fails the test if the browser complained since the tab was opened.
func (tb *tab) clean() {
	tb.t.Helper()
	var violations []string
	tb.eval(`window.violations`, &violations)
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, w := range append(slices.Clone(tb.wrong), violations...) {
		tb.t.Errorf("the browser complains: %s", w)
	}
}

func (tb *tab) do(actions ...chromedp.Action) {
	tb.t.Helper()
	if err := chromedp.Run(tb.ctx, actions...); err != nil {
		tb.t.Fatalf("driving the browser: %v", err)
	}
}

// eval evaluates a JavaScript expression. The debugger does it, so the page's policy stays in
// force.
func (tb *tab) eval(expression string, out any) {
	tb.t.Helper()
	tb.do(chromedp.Evaluate(expression, out))
}

// is waits until an expression is true.
func (tb *tab) is(what, expression string) {
	tb.t.Helper()
	until(tb.t, what, func(context.Context) error {
		var yes bool
		if err := chromedp.Run(tb.ctx, chromedp.Evaluate("!!("+expression+")", &yes)); err != nil {
			return err
		}
		if !yes {
			return fmt.Errorf("%s is not so", expression)
		}
		return nil
	})
}

// text returns the visible text of a selector's first element.
func (tb *tab) text(selector string) string {
	tb.t.Helper()
	var s string
	tb.eval(fmt.Sprintf(`(document.querySelector(%s) || {innerText: ""}).innerText`, quote(selector)), &s)
	return s
}

// shows waits until the element's text has every part. The page loads its parts one after another.
func (tb *tab) shows(selector string, parts ...string) {
	tb.t.Helper()
	until(tb.t, selector+" shows its text", func(context.Context) error {
		text := tb.text(selector)
		for _, p := range parts {
			if !strings.Contains(text, p) {
				return fmt.Errorf("%s has no %q; it says:\n%s", selector, p, text)
			}
		}
		return nil
	})
}

func (tb *tab) size(width, height int64) {
	tb.t.Helper()
	tb.do(emulation.SetDeviceMetricsOverride(width, height, 1, width < 600))
}

func (tb *tab) scheme(light string) {
	tb.t.Helper()
	tb.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: light}}))
}

// fits fails the test if the page scrolls sideways at a width.
func (tb *tab) fits(width int64) {
	tb.t.Helper()
	tb.size(width, 844)
	var wide struct {
		Page  int64
		Worst string
	}
	tb.eval(`(() => {
		let worst = "", most = 0;
		for (const el of document.querySelectorAll("body *")) { // boxes may scroll on their own
			if (el.closest(".scroll, pre, svg, .vh, .prose table")) continue;
			const r = el.getBoundingClientRect().right;
			if (r > most) { most = r; worst = el.tagName + "." + el.className + " " + Math.round(r); }
		}
		return {Page: document.documentElement.scrollWidth, Worst: worst};
	})()`, &wide)
	if wide.Page > width {
		tb.t.Errorf("at %d px the page is %d px wide; the widest is %s", width, wide.Page, wide.Worst)
	}
}

// shot saves pictures of the page in the folder $E2E_SHOTS, at both widths and in both schemes.
func (tb *tab) shot(name string) {
	tb.t.Helper()
	dir := os.Getenv("E2E_SHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			var png []byte
			tb.scheme(scheme)
			tb.size(width, 900)
			tb.do(chromedp.FullScreenshot(&png, 100))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), png, 0o644); err != nil {
				tb.t.Fatal(err)
			}
		}
	}
	tb.scheme("light")
	tb.size(1280, 900)
}

// press clicks an element with the mouse.
func (tb *tab) press(selector string) {
	tb.t.Helper()
	tb.touch(selector, chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// open follows a link to an incident's page. The list may be drawn anew between the press and the
// release of the mouse, which is no click then. So the test clicks again every two seconds.
func (tb *tab) open(selector string) {
	tb.t.Helper()
	tb.press(selector)
	looks := 0
	until(tb.t, selector+" leads to its page", func(context.Context) error {
		again := "false"
		if looks++; looks%20 == 0 {
			again = fmt.Sprintf(`void document.querySelector(%s)?.click()`, quote(selector))
		}
		var there bool
		if err := chromedp.Run(tb.ctx, chromedp.Evaluate(`location.pathname.startsWith("/incidents/") || (`+again+`, false)`, &there)); err != nil {
			return err
		}
		if !there {
			return errors.New("the page is the list")
		}
		return nil
	})
}

// write types text at the end of a field.
func (tb *tab) write(selector, text string) {
	tb.t.Helper()
	tb.touch(selector, chromedp.SendKeys(selector, text, chromedp.ByQuery, chromedp.NodeVisible))
}

// touch brings an element into view and acts on it. If the page replaces the element meanwhile,
// touch starts again with the new one.
func (tb *tab) touch(selector string, actions ...chromedp.Action) {
	tb.t.Helper()
	all := append(chromedp.Tasks{chromedp.ScrollIntoView(selector, chromedp.ByQuery)}, actions...)
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	until(tb.t, selector+" stays while the test acts on it", func(context.Context) error {
		err := chromedp.Run(ctx, all)
		if err != nil && !isReplaced(err) {
			tb.t.Fatalf("driving the browser: %v", err)
		}
		return err
	})
}

// isReplaced reports whether the browser no longer knows the element that an action had found.
func isReplaced(err error) bool {
	for _, message := range []string{"Could not find node", "No node with given id", "Node is detached", "does not belong to the document"} {
		if strings.Contains(err.Error(), message) {
			return true
		}
	}
	return false
}

func (tb *tab) count(selector string) int {
	tb.t.Helper()
	var nodes []*cdp.Node
	tb.do(chromedp.Nodes(selector, &nodes, chromedp.ByQueryAll, chromedp.AtLeast(0)))
	return len(nodes)
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b)
}
