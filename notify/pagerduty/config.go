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

// Validate reports every problem.
func (c Config) Validate() error {
	var errs []error
	if (c.APITokenFile == "") != (c.From == "") {
		errs = append(errs, errors.New("notify.pagerduty: notes need both api_token_file and from (the e-mail "+
			"address of a PagerDuty user)"))
	}
	if c.From != "" && !strings.Contains(c.From, "@") {
		errs = append(errs, fmt.Errorf("notify.pagerduty.from %q is not an e-mail address", c.From))
	}
	for key, base := range map[string]string{"events_url": c.EventsURL, "api_url": c.APIURL} {
		if base == "" {
			continue
		}
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" {
			errs = append(errs, fmt.Errorf("notify.pagerduty.%s %q must be an http or https address without a path "+
				"(https://events.pagerduty.com)", key, base))
		}
	}
	return errors.Join(errs...)
}
