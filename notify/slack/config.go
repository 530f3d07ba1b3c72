package slack

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Config is the section notify.slack of the configuration.
type Config struct {
	TokenFile         string `yaml:"token_file" json:"token_file,omitempty"`
	SigningSecretFile string `yaml:"signing_secret_file" json:"signing_secret_file,omitempty"`
	AppTokenFile      string `yaml:"app_token_file" json:"app_token_file,omitempty"`
	// Channel is the channel's ID (C0123ABCD) or its name (#llm-oncall). An ID needs no scope for
	// listing channels.
	Channel string `yaml:"channel" json:"channel,omitempty"`
	// APIURL is a base that ends in a slash. Empty means Slack's own.
	APIURL string `yaml:"api_url" json:"api_url,omitempty"`
}

// Validate reports every problem.
func (c Config) Validate() error {
	var errs []error
	if c.TokenFile == "" && (c.SigningSecretFile != "" || c.AppTokenFile != "") {
		errs = append(errs, errors.New("notify.slack.token_file is missing: name the file that holds the bot token "+
			"(xoxb-…)"))
	}
	if c.TokenFile != "" && c.Channel == "" {
		errs = append(errs, errors.New("notify.slack.channel is missing: name the channel, by its ID or as #name"))
	}
	if c.APIURL != "" {
		u, err := url.Parse(c.APIURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
			!strings.HasSuffix(c.APIURL, "/") {
			errs = append(errs, fmt.Errorf("notify.slack.api_url %q must be an http or https address that ends in a slash", c.APIURL))
		}
	}
	return errors.Join(errs...)
}
