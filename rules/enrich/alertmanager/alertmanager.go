// Package alertmanager lists what an Alertmanager holds, so that an alert that went without a word
// (silenced or inhibited and then resolved) can be reconciled.
//
// It promises a whole listing or an error, never a part of one: what is not in a listing counts as
// gone. Fingerprints are those of the webhook's payloads. It only reads.
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

// MaxListing is the largest listing that is read, in bytes.
const MaxListing = 64 << 20

// Config says where Alertmanager is.
type Config struct {
	URL       string // its base, with a path prefix where it has one
	Transport http.RoundTripper
	Timeout   time.Duration // zero: 10 s
}

// A Client reads one Alertmanager. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
}

// New makes a client; it does not connect.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("alertmanager.url: want an address such as http://alertmanager:9093")
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	return &Client{base: base, http: &http.Client{Transport: c.Transport, Timeout: c.Timeout, CheckRedirect: enrich.RefuseRedirect}}, nil
}

var fingerprint = regexp.MustCompile(`^[0-9a-f]{16}$`)

// Present lists the fingerprints of every alert that Alertmanager holds, sorted: active, silenced,
// inhibited and not yet processed.
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

// Ping asks for Alertmanager's status.
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
