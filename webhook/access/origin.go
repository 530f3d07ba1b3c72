package access

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"paramedic/webhook/httpio"
)

// Any site that a browser on this machine shows can make the browser send requests to a bot on
// loopback. So requests without authentication must name this machine and come from no other site.

const (
	refusedName = "without auth Paramedic answers only as 127.0.0.1 or localhost, and this request used another name: use one of " +
		"them, set public_url to the name, or configure auth"
	refusedSite = "refused: the request came from another site; send it from Paramedic's own pages"
)

// newOrigins returns the check of a write's origin. The origin of the bot's public URL is trusted,
// because a proxy may use another host name.
func newOrigins(public string) *http.CrossOriginProtection {
	check := http.NewCrossOriginProtection()
	if u, err := url.Parse(public); err == nil && u.Host != "" {
		// an invalid origin is never sent by a browser
		_ = check.AddTrustedOrigin(u.Scheme + "://" + u.Host)
	}
	return check
}

// CheckOrigin refuses a request that a page of another site can have caused, on every path that
// needs no authentication. Slack and PagerDuty sign their requests, and /healthz returns no data.
func (c *Control) CheckOrigin(r *http.Request) error {
	path := r.URL.Path
	switch {
	case path == "/healthz", strings.HasPrefix(path, "/webhook/slack/"), path == "/webhook/pagerduty":
		return nil
	case path == "/webhook/alertmanager":
		if c.Alertmanager.Open && !c.Alertmanager.Configured() && !c.ownName(r.Host) {
			return httpio.Fail(http.StatusForbidden, refusedName)
		}
		return c.ownSite(r) // also with authentication: Alertmanager is not a browser
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

// local refuses a request that no program or page on this machine sent.
func (c *Control) local(r *http.Request) error {
	if !c.ownName(r.Host) {
		return httpio.Fail(http.StatusForbidden, refusedName)
	}
	return c.ownSite(r)
}

// ownName reports whether a Host header names this machine or the bot's public URL. Any IP address
// passes: another site can point its host name here, but it cannot change an address.
func (c *Control) ownName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	u, err := url.Parse(c.PublicURL)
	return strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil ||
		err == nil && host != "" && strings.EqualFold(host, u.Hostname())
}

// ownSite refuses a write that a page of another site caused, and a background read by such a page.
// It allows a link from another site to a page.
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

// ownWrite refuses a write by another site's page. A form on another site cannot send JSON without
// a preflight request, which gets no answer here.
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
