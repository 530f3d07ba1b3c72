package pagerduty

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Config is the section notify.pagerduty of the configuration.
type Config struct {
	RoutingKeyFile    string `yaml:"routing_key_file" json:"routing_key_file,omitempty"`
	WebhookSecretFile string `yaml:"webhook_secret_file" json:"webhook_secret_file,omitempty"`
	// APITokenFile and From are for notes, in incidents of other tools and in our own merged ones.
	// From is the e-mail address of a PagerDuty user.
	APITokenFile string `yaml:"api_token_file" json:"api_token_file,omitempty"`
	From         string `yaml:"from" json:"from,omitempty"`
	// EventsURL and APIURL are bases without a path. Empty means PagerDuty's own.
	EventsURL string `yaml:"events_url" json:"events_url,omitempty"`
	APIURL    string `yaml:"api_url" json:"api_url,omitempty"`
}

// Notes reports whether the bot can write notes.
func (c Config) Notes() bool { return c.APITokenFile != "" }

// A Problem is an invalid value of a key.
type Problem struct{ Key, Text string }

// Problems returns every problem.
func (c Config) Problems() []Problem {
	var out []Problem
	if (c.APITokenFile == "") != (c.From == "") {
		out = append(out, Problem{"from", "notes need both api_token_file and from (the e-mail address of a PagerDuty user)"})
	}
	if c.From != "" && !strings.Contains(c.From, "@") {
		out = append(out, Problem{"from", fmt.Sprintf("%q is not an e-mail address", c.From)})
	}
	for _, base := range []Problem{{"events_url", c.EventsURL}, {"api_url", c.APIURL}} {
		u, err := url.Parse(base.Text)
		if base.Text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "") {
			out = append(out, Problem{base.Key, fmt.Sprintf("%q must be an http or https address without a path, such as "+
				"https://events.pagerduty.com", base.Text)})
		}
	}
	return out
}

// Validate returns an error with every problem, or nil.
func (c Config) Validate() error {
	var errs []error
	for _, p := range c.Problems() {
		errs = append(errs, fmt.Errorf("notify.pagerduty.%s: %s", p.Key, p.Text))
	}
	return errors.Join(errs...)
}
