// Package alertmanager lists the alerts that an Alertmanager holds. The bot needs the list for
// alerts that disappear without a notification, such as silenced or inhibited ones that then
// resolve.
//
// It returns a complete list or an error, never a part, because the caller treats an unlisted alert
// as gone. The fingerprints are the same as those in the webhook's payloads. The package only
// reads.
package alertmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// MaxListing is the largest list that the client accepts, in bytes.
const MaxListing = 64 << 20

// Config holds the address of Alertmanager and how to call it.
type Config struct {
	URL       string // base URL, with a path prefix if there is one
	Transport http.RoundTripper
	Timeout   time.Duration // zero: 10 s
}

// A Client reads one Alertmanager. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
}

// New returns a client; it does not connect.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("alertmanager.url: want an address such as http://alertmanager:9093")
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	return &Client{base: base, http: &http.Client{Transport: c.Transport, Timeout: c.Timeout,
		CheckRedirect: enrich.RefuseRedirect}}, nil
}

var fingerprint = regexp.MustCompile(`^[0-9a-f]{16}$`)

// Present returns the sorted fingerprints of all alerts that Alertmanager holds: active, silenced,
// inhibited and unprocessed.
func (c *Client) Present(ctx context.Context) ([]state.Fingerprint, error) {
	q := url.Values{"active": {"true"}, "silenced": {"true"}, "inhibited": {"true"}, "unprocessed": {"true"}}
	body, err := c.get(ctx, "api/v2/alerts", q)
	if err != nil {
		return nil, err
	}
	var out []state.Fingerprint
	var alerts []struct {
		Fingerprint string `json:"fingerprint"`
	}
	if err := json.Unmarshal(body, &alerts); err != nil {
		return nil, errors.New("alertmanager answered with something that is not a list of alerts")
	}
	for _, a := range alerts {
		if !fingerprint.MatchString(a.Fingerprint) {
			return nil, errors.New("alertmanager listed an alert without a fingerprint")
		}
		out = append(out, state.Fingerprint(a.Fingerprint))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Ping requests Alertmanager's status.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.get(ctx, "api/v2/status", nil)
	return err
}

func (c *Client) get(ctx context.Context, path string, q url.Values) ([]byte, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("alertmanager.url is not an address")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, errors.New(enrich.Explain("Alertmanager", err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("alertmanager answers %d to %s", resp.StatusCode, path)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxListing+1))
	if err != nil {
		return nil, errors.New(enrich.Explain("Alertmanager", err))
	}
	if len(body) > MaxListing {
		return nil, fmt.Errorf("alertmanager's listing is larger than %d MiB", MaxListing>>20)
	}
	return body, nil
}
