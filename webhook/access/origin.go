package access

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"paramedic/webhook/httpio"
)

// A browser on this machine can be made to ask a bot on loopback by any site that it shows. So
// whatever needs no proof of who asks is given to requests that name this machine and come from no
// other site.

const (
	refusedName = "the bot is open to this machine only and was asked under another name: use 127.0.0.1 or " +
		"localhost, set public_url to the name, or configure auth"
	refusedSite = "refused: the request came from another site"
)

// newOrigins returns the check of where writes come from. The origin of the bot's public URL counts
// as its own: a proxy may ask under another name.
func newOrigins(public string) *http.CrossOriginProtection {
	check := http.NewCrossOriginProtection()
	if u, err := url.Parse(public); err == nil && u.Host != "" {
		// one that browsers never send is no origin, and is never met
		_ = check.AddTrustedOrigin(u.Scheme + "://" + u.Host)
	}
	return check
}

// CheckOrigin refuses a request that a page of another site can have caused, on every path that
// needs no proof of who asks. Slack and PagerDuty sign theirs, and /healthz tells nothing.
func (c *Control) CheckOrigin(r *http.Request) error {
	path := r.URL.Path
	switch {
	case path == "/healthz", strings.HasPrefix(path, "/webhook/slack/"), path == "/webhook/pagerduty":
		return nil
	case path == "/webhook/alertmanager":
		if c.Alertmanager.Open && !c.Alertmanager.Configured() && !c.ownName(r.Host) {
			return httpio.Fail(http.StatusForbidden, refusedName)
		}
		return c.ownSite(r) // Alertmanager is no browser: with authentication, too, such a request is not its own
	case path == "/metrics":
		if c.API.Open && !c.ownName(r.Host) {
			return httpio.Fail(http.StatusForbidden, refusedName)
		}
		return nil
	case c.API.Open && c.API.Tokens == nil:
		return c.local(r)
	}
	return nil
}

// local refuses what did not come from a program or a page on this machine.
func (c *Control) local(r *http.Request) error {
	if !c.ownName(r.Host) {
		return httpio.Fail(http.StatusForbidden, refusedName)
	}
	return c.ownSite(r)
}

// ownName reports whether a Host header names this machine or the bot's public URL. Any address
// passes: another site can point its name here, but not an address.
func (c *Control) ownName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	u, err := url.Parse(c.PublicURL)
	return strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil ||
		err == nil && host != "" && strings.EqualFold(host, u.Hostname())
}

// ownSite refuses a write that a page of another site caused, and a read that one made in the
// background. A link from elsewhere to a page is fine.
func (c *Control) ownSite(r *http.Request) error {
	if c.origins.Check(r) != nil {
		return httpio.Fail(http.StatusForbidden, refusedSite)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	if !writes(r) && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return httpio.Fail(http.StatusForbidden, refusedSite)
	}
	return nil
}

// ownWrite refuses a write of another site's page. A form of another site cannot send JSON without
// asking first, and gets no answer to that question here.
func (c *Control) ownWrite(r *http.Request) error {
	switch {
	case !writes(r):
		return nil
	case c.origins.Check(r) != nil:
		return httpio.Fail(http.StatusForbidden, refusedSite)
	case !httpio.SentJSON(r):
		return httpio.Fail(http.StatusUnsupportedMediaType, "send the body as Content-Type: application/json")
	}
	return nil
}

func writes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}
