package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"paramedic/notify/pagerduty"
	"paramedic/remediate/policy"
	"paramedic/state"
	"paramedic/webhook/access"
)

// ClusterNames returns the configured clusters, the default first.
func (c Config) ClusterNames() []string {
	names := make([]string, len(c.Clusters))
	for i, cl := range c.Clusters {
		names[i] = cl.Name
	}
	return names
}

// Settings returns the times of triage.
func (c Config) Settings() state.Settings {
	s := state.DefaultSettings()
	s.Settle, s.ResolveHold, s.Retain = c.Triage.Settle.D(), c.Triage.ResolveHold.D(), c.State.Retain.D()
	s.StaleAfter = c.Triage.StaleAfter.D()
	return s
}

// Channels returns the channels that are configured.
func (c Config) Channels() []state.Channel {
	var out []state.Channel
	for _, ch := range []struct {
		on   bool
		name state.Channel
	}{{c.Notify.PagerDuty.RoutingKeyFile != "", state.ChannelPagerDuty}, {c.Notify.Slack.TokenFile != "",
		state.ChannelSlack}, {c.Notify.Console, state.ChannelConsole}} {
		if ch.on {
			out = append(out, ch.name)
		}
	}
	return out
}

// BaseURL returns the base of links in messages. It is empty if the bot listens on every address
// and has no public_url: no link would lead to it.
func (c Config) BaseURL() string {
	if c.PublicURL != "" {
		return strings.TrimSuffix(c.PublicURL, "/")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		return ""
	}
	return Scheme(c) + "://" + c.Listen
}

// Scheme returns https if the bot has a certificate, else http.
func Scheme(c Config) string {
	if c.TLS.CertFile != "" {
		return "https"
	}
	return "http"
}

// policies returns the policies of first aid.
func (c Config) policies() []policy.Policy {
	one := func(s string) []string {
		if s == "" {
			return nil
		}
		return []string{s}
	}
	var out []policy.Policy
	for i, p := range c.Remediate.Policies {
		q := policy.Policy{Name: fmt.Sprint(i + 1), Causes: p.Cause, Actions: p.Action, Clusters: one(p.Scope.Cluster),
			Namespaces: one(p.Scope.Namespace), Pools: one(p.Scope.Pool), Mode: policy.Mode(p.Mode),
			Approvers: p.Approvers,
			Limits:    p.Limits.limits()}
		for _, w := range p.Freeze {
			q.Freeze = append(q.Freeze, policy.FreezeWindow{Days: w.Days, From: w.From, To: w.To})
		}
		out = append(out, q)
	}
	return out
}

// Remediation returns the rules of first aid. A time that the configuration omits is taken from
// base.
func (c Config) Remediation(base policy.Timing) policy.Rules {
	return policy.Rules{Mode: policy.Mode(c.Remediate.Mode), Policies: c.policies(),
		Limits:       c.Remediate.Limits.limits(),
		ManagedLabel: c.Remediate.ManagedLabel, Timing: c.timing(base)}
}

// limits converts the limits for first aid.
func (l LimitsConfig) limits() policy.Limits {
	return policy.Limits{Floor: l.Floor, Ceiling: l.Ceiling, MaxFactor: l.MaxFactor, EvidenceAge: l.EvidenceAge.D(),
		Signals:   l.Signals,
		HumanEdit: l.HumanEdit.D(), Cooldown: l.Cooldown.D(), PerIncident: l.PerIncident, PerTargetDay: l.PerTargetDay,
		EvictionsPerHour: l.EvictionsHour, EvictionPercent: l.EvictionPercent, RolloutEvery: l.RolloutWindow.D(),
		ReadyPercent: l.ReadyPercent, MaxLoad: l.MaxLoad, ApprovalTTL: l.ApprovalExpires.D()}
}

// timing returns the times of a run: the configuration's, else those of base.
func (c Config) timing(base policy.Timing) policy.Timing {
	v, w := c.Remediate.Verify, c.Remediate.Wait
	for _, f := range []struct {
		to   *time.Duration
		from Duration
	}{{&base.Settle, v.Settle}, {&base.Window, v.Window}, {&base.Interval, v.Interval},
		{&base.Drain, w.Drain}, {&base.Blocked, w.Blocked}, {&base.Rollout, w.Rollout}, {&base.Poll, w.Poll}} {
		if f.from > 0 {
			*f.to = f.from.D()
		}
	}
	if v.MinSamples > 0 {
		base.Samples = v.MinSamples
	}
	return base
}

// slackUser matches the ID of a Slack user.
var slackUser = regexp.MustCompile(`^[UW][A-Z0-9]{5,}$`)

// UnknownApprovers returns the approvers of policies that nothing vouches for: no Slack user ID,
// and no name of a token whose role may approve.
func (c Config) UnknownApprovers() []string {
	tokens, err := access.LoadTokens(c.Auth.API.TokensFile)
	var out []string
	for _, p := range c.Remediate.Policies {
		for _, name := range p.Approvers {
			known := slackUser.MatchString(name) || err == nil && tokens.MayRespond(name)
			if !known && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// EmbeddedDir returns the embedded store's directory. It is empty if an external store is
// configured.
func (c Config) EmbeddedDir() string {
	if c.State.NATS.URL != "" {
		return ""
	}
	return c.State.Dir
}

// Notifier converts the section for the notifier.
func (c PagerDutyConfig) Notifier() pagerduty.Config {
	return pagerduty.Config{RoutingKeyFile: c.RoutingKeyFile, WebhookSecretFile: c.WebhookSecretFile,
		APITokenFile: c.APITokenFile,
		From:         c.From, EventsURL: c.EventsURL, APIURL: c.APIURL}
}

// LoadTLS reads the certificate and the clients' CA as they are now.
func LoadTLS(cfg Config) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	// A resumed session would admit clients of an older CA.
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		SessionTicketsDisabled: true}
	ca := cfg.Auth.Alertmanager.ClientCAFile
	if ca == "" {
		return conf, nil
	}
	pool, err := authorities(ca)
	if err != nil {
		return nil, fmt.Errorf("auth.alertmanager.client_ca_file: %w", err)
	}
	conf.ClientCAs, conf.ClientAuth = pool, tls.VerifyClientCertIfGiven
	return conf, nil
}

// authorities reads the CA certificates of a PEM file.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM format", file)
	}
	return pool, nil
}

// Headers returns the headers of the file as they are now.
func (c PrometheusConfig) Headers() (http.Header, error) { return headersOf(c.HeadersFile) }

// Headers returns the headers of the file as they are now.
func (c TracesConfig) Headers() (http.Header, error) { return headersOf(c.HeadersFile) }
