package config

import (
	"fmt"
	"time"

	"paramedic/internal/strictyaml"
	"paramedic/state"
)

// Config holds paramedic.yaml. The zero value of every key is safe. The jsonschema_description of a
// key explains it; the reference and the JSON Schema below docs are generated from it.
type Config struct {
	Listen    string          `yaml:"listen" json:"listen,omitempty" jsonschema_description:"Address that the bot listens on. On any address but loopback, webhook and API need authentication."`
	PublicURL string          `yaml:"public_url" json:"public_url,omitempty" jsonschema_description:"Address of the pages, for links in messages. Without authentication, the bot accepts requests only for loopback and for this host name. Default: http:// and the listen address; messages have no links if that is every address, such as 0.0.0.0."`
	State     StateConfig     `yaml:"state" json:"state,omitzero"`
	Auth      AuthConfig      `yaml:"auth" json:"auth,omitzero"`
	TLS       TLSConfig       `yaml:"tls" json:"tls,omitzero"`
	Clusters  []ClusterConfig `yaml:"clusters" json:"clusters,omitempty" jsonschema_description:"The alert label cluster selects the cluster. Alerts without it belong to the first. Alerts of an unknown cluster get neither evidence nor first aid. A single cluster takes every alert."`
	Triage    TriageConfig    `yaml:"triage" json:"triage,omitzero"`
	Playbooks PlaybookConfig  `yaml:"playbooks" json:"playbooks,omitzero"`
	Notify    NotifyConfig    `yaml:"notify" json:"notify,omitzero"`
	Remediate RemediateConfig `yaml:"remediate" json:"remediate,omitzero"`
	Tracing   TracingConfig   `yaml:"tracing" json:"tracing,omitzero"`
}

// StateConfig configures where the bot stores its state.
type StateConfig struct {
	Dir    string     `yaml:"dir" json:"dir,omitempty" jsonschema_description:"Directory of the embedded NATS JetStream. The bot writes each alert to disk before it answers 200."`
	NATS   NATSConfig `yaml:"nats" json:"nats,omitzero"`
	Retain Duration   `yaml:"retain" json:"retain,omitempty" jsonschema_description:"How long the bot keeps inputs and resolved incidents. At least 24h, and as long as the guards look back (rollout_window, cooldown)."`
}

// NATSConfig configures an external NATS cluster.
type NATSConfig struct {
	URL             string `yaml:"url" json:"url,omitempty" jsonschema_description:"External NATS cluster (2.12 or newer) instead of the embedded one."`
	CredentialsFile string `yaml:"credentials_file" json:"credentials_file,omitempty" jsonschema_description:"NATS credentials: a .creds file, or the seed of an NKey (SU…)."`
	CAFile          string `yaml:"ca_file" json:"ca_file,omitempty" jsonschema_description:"CA (PEM) of the servers' certificates, instead of the system's. The bot reads the three files again for each connection. With any of them it refuses a server without TLS."`
	CertFile        string `yaml:"cert_file" json:"cert_file,omitempty" jsonschema_description:"Certificate chain (PEM) that the bot shows to the servers."`
	KeyFile         string `yaml:"key_file" json:"key_file,omitempty" jsonschema_description:"Private key (PEM) of cert_file."`
	Replicas        int    `yaml:"replicas" json:"replicas,omitempty" jsonschema_description:"Replicas of the streams in an external cluster, 1 to 5." jsonschema:"minimum=1,maximum=5"`
}

// AuthConfig configures authentication.
type AuthConfig struct {
	Alertmanager AlertmanagerAuth `yaml:"alertmanager" json:"alertmanager,omitzero" jsonschema_description:"How Alertmanager authenticates. If several ways are configured, one is enough."`
	API          APIAuth          `yaml:"api" json:"api,omitzero"`
}

// AlertmanagerAuth configures the authentication of the webhook.
type AlertmanagerAuth struct {
	BearerTokenFile string    `yaml:"bearer_token_file" json:"bearer_token_file,omitempty" jsonschema_description:"File (or ${ENV}) with the bearer token that Alertmanager sends."`
	BasicAuth       BasicAuth `yaml:"basic_auth" json:"basic_auth,omitzero"`
	ClientCAFile    string    `yaml:"client_ca_file" json:"client_ca_file,omitempty" jsonschema_description:"CA whose client certificates the bot accepts. Needs tls."`
}

// BasicAuth holds a user name and a password.
type BasicAuth struct {
	Username     string `yaml:"username" json:"username,omitempty" jsonschema_description:"User name that Alertmanager sends."`
	PasswordFile string `yaml:"password_file" json:"password_file,omitempty" jsonschema_description:"File (or ${ENV}) with its password."`
}

// APIAuth configures the authentication of people and programs.
type APIAuth struct {
	TokensFile string `yaml:"tokens_file" json:"tokens_file,omitempty" jsonschema_description:"File with a YAML list of {token, name, role, slack_user}. Roles are viewer, responder and admin."`
}

// TLSConfig configures the server's certificate.
type TLSConfig struct {
	CertFile string `yaml:"cert_file" json:"cert_file,omitempty" jsonschema_description:"Certificate chain (PEM). The bot reads it again when it changes."`
	KeyFile  string `yaml:"key_file" json:"key_file,omitempty" jsonschema_description:"Private key (PEM)."`
}

// ClusterConfig configures the sources of evidence of one cluster.
type ClusterConfig struct {
	Name         string            `yaml:"name" json:"name" jsonschema_description:"The value of the label cluster on this cluster's alerts."`
	Prometheus   PrometheusConfig  `yaml:"prometheus" json:"prometheus,omitzero"`
	Alertmanager URLConfig         `yaml:"alertmanager" json:"alertmanager,omitzero" jsonschema_description:"The bot asks it for its alerts, to resolve those whose resolved message was lost."`
	Kubernetes   *KubernetesConfig `yaml:"kubernetes" json:"kubernetes,omitempty" jsonschema_description:"{} uses the pod's service account. Without this key there is no evidence from Kubernetes and no first aid."`
	Engines      []string          `yaml:"engines" json:"engines,omitempty" jsonschema_description:"/metrics pages that the bot scrapes itself, if there is no Prometheus."`
	Traces       TracesConfig      `yaml:"traces" json:"traces,omitzero"`
}

// PrometheusConfig configures a Prometheus-compatible query API.
type PrometheusConfig struct {
	URL             string            `yaml:"url" json:"url,omitempty" jsonschema_description:"Base URL of the query API."`
	BearerTokenFile string            `yaml:"bearer_token_file" json:"bearer_token_file,omitempty" jsonschema_description:"File (or ${ENV}) with the bearer token for it."`
	HeadersFile     string            `yaml:"headers_file" json:"headers_file,omitempty" jsonschema_description:"File (or ${ENV}) with headers for it, one as Name: value on each line, such as the tenant of Mimir (X-Scope-OrgID) or basic authentication (Authorization)."`
	Match           map[string]string `yaml:"match" json:"match,omitempty" jsonschema_description:"Labels that evidence must have, as name: value. A store that holds several clusters (Thanos, Mimir, VictoriaMetrics) needs them, such as cluster: eu-1."`
}

// URLConfig holds a base URL.
type URLConfig struct {
	URL string `yaml:"url" json:"url,omitempty" jsonschema_description:"Base URL."`
}

// KubernetesConfig configures the connection to an API server.
type KubernetesConfig struct {
	Kubeconfig      string `yaml:"kubeconfig" json:"kubeconfig,omitempty" jsonschema_description:"Path of a kubeconfig. Empty: the pod's service account."`
	Context         string `yaml:"context" json:"context,omitempty" jsonschema_description:"Context in the kubeconfig. Empty: its current one."`
	FirstAidAccount string `yaml:"first_aid_account" json:"first_aid_account,omitempty" jsonschema_description:"Service account, as namespace/name, that first aid plans and writes as. The account that reads must be allowed to impersonate it. Empty: first aid uses the account that reads."`
}

// TracesConfig configures the store of request traces.
type TracesConfig struct {
	TempoURL        string `yaml:"tempo_url" json:"tempo_url,omitempty" jsonschema_description:"Base URL of Tempo. The bot reads from traces where requests spend their time."`
	JaegerURL       string `yaml:"jaeger_url" json:"jaeger_url,omitempty" jsonschema_description:"Base URL of Jaeger (1.53 or newer) instead of Tempo."`
	BearerTokenFile string `yaml:"bearer_token_file" json:"bearer_token_file,omitempty" jsonschema_description:"File (or ${ENV}) with the bearer token of the trace store."`
	HeadersFile     string `yaml:"headers_file" json:"headers_file,omitempty" jsonschema_description:"File (or ${ENV}) with headers for the trace store, one as Name: value on each line."`
}

// TriageConfig configures the times and the rules of triage.
type TriageConfig struct {
	Settle      Duration `yaml:"settle" json:"settle,omitempty" jsonschema_description:"How long the bot collects symptoms before it gathers evidence. It sends a critical page within 30s in any case."`
	ResolveHold Duration `yaml:"resolve_hold" json:"resolve_hold,omitempty" jsonschema_description:"How long an incident stays open after its last alert ends. Each time after the first that the trouble comes back soon after its end doubles it, up to 15m."`
	MaxLag      Duration `yaml:"max_lag" json:"max_lag,omitempty" jsonschema_description:"If the waiting alerts need longer than this, the bot refuses new ones with 503, and Alertmanager retries. At least 5s."`
	StaleAfter  Duration `yaml:"stale_after" json:"stale_after,omitempty" jsonschema_description:"An alert that Alertmanager does not report for this time counts as resolved. At least twice its repeat_interval plus group_interval. With clusters[].alertmanager.url, an alert that Alertmanager holds counts as reported."`
	RulesDir    string   `yaml:"rules_dir" json:"rules_dir,omitempty" jsonschema_description:"Directory of your own causes and symptoms, which override or extend the built-in ones."`
}

// PlaybookConfig names the directory of the user's own playbooks.
type PlaybookConfig struct {
	Dir string `yaml:"dir" json:"dir,omitempty" jsonschema_description:"Directory of your own playbooks, which override or extend the built-in ones."`
}

// NotifyConfig configures channels and routes.
type NotifyConfig struct {
	Console   bool            `yaml:"console" json:"console,omitempty" jsonschema_description:"Print incidents on standard output."`
	Slack     SlackConfig     `yaml:"slack" json:"slack,omitzero"`
	PagerDuty PagerDutyConfig `yaml:"pagerduty" json:"pagerduty,omitzero"`
	Templates []string        `yaml:"templates" json:"templates,omitempty" jsonschema_description:"Patterns of files with your own message texts, in Alertmanager's template language (docs/templates.md)."`
	Routes    []RouteConfig   `yaml:"routes" json:"routes,omitempty" jsonschema_description:"The first route that matches decides. Default: the bot pages for critical, posts for warning, and logs info. It never pages for benign_alert. For gpu_underutilization, and for unknown while its users are measured and well, it pages only if the route names the cause."`
}

// SlackConfig configures a Slack app.
type SlackConfig struct {
	TokenFile         string `yaml:"token_file" json:"token_file,omitempty" jsonschema_description:"File (or ${ENV}) with the bot token (xoxb-…)."`
	SigningSecretFile string `yaml:"signing_secret_file" json:"signing_secret_file,omitempty" jsonschema_description:"File (or ${ENV}) with the signing secret. Without it the bot refuses commands and buttons."`
	AppTokenFile      string `yaml:"app_token_file" json:"app_token_file,omitempty" jsonschema_description:"Reserved for Socket Mode. Must be empty in this version."`
	Channel           string `yaml:"channel" json:"channel,omitempty" jsonschema_description:"Channel name or ID that incidents are posted to."`
	APIURL            string `yaml:"api_url" json:"api_url,omitempty" jsonschema_description:"Base of Slack's API, ending in a slash. Default: https://slack.com/api/."`
}

// PagerDutyConfig configures a PagerDuty service.
type PagerDutyConfig struct {
	RoutingKeyFile    string `yaml:"routing_key_file" json:"routing_key_file,omitempty" jsonschema_description:"File (or ${ENV}) with the Events v2 integration key."`
	WebhookSecretFile string `yaml:"webhook_secret_file" json:"webhook_secret_file,omitempty" jsonschema_description:"File (or ${ENV}) with the secret of the V3 webhook subscription."`
	APITokenFile      string `yaml:"api_token_file" json:"api_token_file,omitempty" jsonschema_description:"File (or ${ENV}) with a REST API token. The bot writes notes with it on incidents of other tools, and on its own if the cause changed or they were merged."`
	From              string `yaml:"from" json:"from,omitempty" jsonschema_description:"E-mail address of the PagerDuty user who writes the notes."`
	EventsURL         string `yaml:"events_url" json:"events_url,omitempty" jsonschema_description:"Base of the Events API, without a path. Default: https://events.pagerduty.com."`
	APIURL            string `yaml:"api_url" json:"api_url,omitempty" jsonschema_description:"Base of the REST API, without a path. Default: https://api.pagerduty.com."`
}

// PlaceMatch is the part of routes and policies that matches an incident's place. An empty key
// matches everything.
type PlaceMatch struct {
	Cluster   string `yaml:"cluster" json:"cluster,omitempty" jsonschema_description:"Matches the incident's cluster."`
	Namespace string `yaml:"namespace" json:"namespace,omitempty" jsonschema_description:"Matches its namespace."`
	Pool      string `yaml:"pool" json:"pool,omitempty" jsonschema_description:"Matches its workload's name."`
}

// ScopeMatch matches a place and the model that is served there.
type ScopeMatch struct {
	PlaceMatch `yaml:",inline"`
	Model      string `yaml:"model" json:"model,omitempty" jsonschema_description:"Matches its model."`
}

// RouteConfig sends incidents to channels.
type RouteConfig struct {
	Severity List[state.Severity] `yaml:"severity" json:"severity,omitempty" jsonschema_description:"Matches any of critical, warning, info. Empty: all."`
	Cause    List[state.Cause]    `yaml:"cause" json:"cause,omitempty" jsonschema_description:"Matches any of these causes. Empty: all."`
	Scope    ScopeMatch           `yaml:"scope" json:"scope,omitzero"`
	Channels List[state.Channel]  `yaml:"channels" json:"channels" jsonschema_description:"Any of console, slack, pagerduty. If the list is empty, the bot sends nothing."`
}

// RemediateConfig configures what first aid may do.
type RemediateConfig struct {
	Mode         string         `yaml:"mode" json:"mode,omitempty" jsonschema:"enum=observe,enum=suggest,enum=approve,enum=auto" jsonschema_description:"observe only records the plan, suggest also shows it, approve asks a person, auto acts alone."`
	Policies     []PolicyConfig `yaml:"policies" json:"policies,omitempty" jsonschema_description:"Stricter modes and limits for parts of the fleet. If several match, the strictest wins."`
	Limits       LimitsConfig   `yaml:"limits" json:"limits,omitzero" jsonschema_description:"Limits for the whole fleet. They may be looser or stricter than the defaults, within the bounds."`
	ManagedLabel string         `yaml:"managed_label" json:"managed_label,omitempty" jsonschema_description:"Label, as key=value, that a namespace needs in mode auto. In mode approve it may be absent; another value forbids first aid in every mode. If it is -, the label is ignored. Default: paramedic.dev/managed=true."`
	Verify       VerifyConfig   `yaml:"verify" json:"verify,omitzero"`
	Wait         WaitConfig     `yaml:"wait" json:"wait,omitzero"`
}

// PolicyConfig restricts first aid for a cause, an action and a scope.
type PolicyConfig struct {
	Cause     List[string]   `yaml:"cause" json:"cause,omitempty" jsonschema_description:"Matches any of these causes. Empty: all."`
	Action    List[string]   `yaml:"action" json:"action,omitempty" jsonschema_description:"Matches any of set_engine_arg, restart_worker. Empty: all."`
	Scope     PlaceMatch     `yaml:"scope" json:"scope,omitzero"`
	Mode      string         `yaml:"mode" json:"mode,omitempty" jsonschema:"enum=observe,enum=suggest,enum=approve,enum=auto" jsonschema_description:"Mode for what the policy matches. It must not be looser than remediate.mode."`
	Approvers List[string]   `yaml:"approvers" json:"approvers,omitempty" jsonschema_description:"Slack user IDs and API token names that may approve. Empty: every responder."`
	Limits    LimitsConfig   `yaml:"limits" json:"limits,omitzero" jsonschema_description:"Limits for what the policy matches. They must not be looser than remediate.limits."`
	Freeze    []FreezeWindow `yaml:"freeze" json:"freeze,omitempty" jsonschema_description:"Times in which first aid writes nothing."`
}

// LimitsConfig configures the limits of the guards. A limit that is not set keeps its default.
// policy.AllLimits has the bounds.
type LimitsConfig struct {
	Floor           int      `yaml:"floor" json:"floor,omitempty" jsonschema:"minimum=8,maximum=1024" jsonschema_description:"Smallest max_num_seqs that first aid sets, 8 to 1024. Larger is stricter. Default: 8."`
	Ceiling         int      `yaml:"ceiling" json:"ceiling,omitempty" jsonschema:"minimum=8,maximum=8192" jsonschema_description:"Largest max_num_seqs that first aid sets, 8 to 8192. Default: 1024."`
	MaxFactor       float64  `yaml:"max_factor" json:"max_factor,omitempty" jsonschema:"minimum=1.25,maximum=8" jsonschema_description:"Largest factor of one change, 1.25 to 8. First aid never raises a value by more than 2. Default: 4."`
	EvidenceAge     Duration `yaml:"evidence_age" json:"evidence_age,omitempty" jsonschema_description:"Largest age of samples that count, 30s to 10m. Default: 2m."`
	Signals         int      `yaml:"signals" json:"signals,omitempty" jsonschema:"minimum=2,maximum=6" jsonschema_description:"Independent signals that must still support the cause in mode auto, 2 to 6. If a person approves, one fewer is enough. More is stricter. Default: 2."`
	HumanEdit       Duration `yaml:"human_edit" json:"human_edit,omitempty" jsonschema_description:"How long first aid writes nothing to a workload after a person's edit, 5m to 24h. Longer is stricter. Default: 15m."`
	Cooldown        Duration `yaml:"cooldown" json:"cooldown,omitempty" jsonschema_description:"Shortest time between two actions on one pool, 5m to 24h. Longer is stricter. Default: 30m."`
	PerIncident     int      `yaml:"per_incident" json:"per_incident,omitempty" jsonschema:"minimum=1,maximum=6" jsonschema_description:"Most actions for one incident, 1 to 6. Default: 2."`
	PerTargetDay    int      `yaml:"per_target_day" json:"per_target_day,omitempty" jsonschema:"minimum=1,maximum=12" jsonschema_description:"Most actions on one pool within a day, 1 to 12. Default: 3."`
	EvictionsHour   int      `yaml:"evictions_per_hour" json:"evictions_per_hour,omitempty" jsonschema:"minimum=1,maximum=10" jsonschema_description:"Most evictions in one pool within an hour, 1 to 10. Default: 3."`
	EvictionPercent int      `yaml:"eviction_percent" json:"eviction_percent,omitempty" jsonschema:"minimum=1,maximum=50" jsonschema_description:"Most evictions within an hour in percent of the pool, 1 to 50, at least one worker. The smaller of both limits holds. Default: 25."`
	RolloutWindow   Duration `yaml:"rollout_window" json:"rollout_window,omitempty" jsonschema_description:"First aid starts at most one rollout of a pool within this time, 1h to 168h. Longer is stricter. Default: 6h."`
	ReadyPercent    int      `yaml:"ready_percent" json:"ready_percent,omitempty" jsonschema:"minimum=50,maximum=100" jsonschema_description:"Percent of the pool that must stay ready in mode auto, 50 to 100. More is stricter. Default: 80."`
	MaxLoad         float64  `yaml:"max_load" json:"max_load,omitempty" jsonschema:"minimum=0.1,maximum=0.95" jsonschema_description:"Largest expected load of the remaining workers in mode auto, as a ratio, 0.1 to 0.95. Default: 0.85."`
	ApprovalExpires Duration `yaml:"approval_expires" json:"approval_expires,omitempty" jsonschema_description:"How long a plan waits for approval, 1m to 4h. Default: 15m."`
}

// FreezeWindow is a daily or weekly time without writes.
type FreezeWindow struct {
	Days []string `yaml:"days" json:"days,omitempty" jsonschema_description:"Any of mon, tue, wed, thu, fri, sat, sun. Empty: every day."`
	From string   `yaml:"from" json:"from" jsonschema_description:"Start in UTC, such as 22:00."`
	To   string   `yaml:"to" json:"to" jsonschema_description:"End in UTC, such as 06:00. If it is before from, the window ends on the next day."`
}

// VerifyConfig configures the times of verification.
type VerifyConfig struct {
	Settle     Duration `yaml:"settle" json:"settle,omitempty" jsonschema_description:"How long after a write samples do not count. Default: 2m."`
	Window     Duration `yaml:"window" json:"window,omitempty" jsonschema_description:"How long the bot watches the pool after a write. Default: 10m."`
	Interval   Duration `yaml:"interval" json:"interval,omitempty" jsonschema_description:"Time between two samples. Default: 30s."`
	MinSamples int      `yaml:"min_samples" json:"min_samples,omitempty" jsonschema_description:"Samples that a verdict needs. They must fit into window at interval. The bot reads half as many, at least three, before the write. Default: 10."`
}

// WaitConfig configures how long an action waits for the cluster. Zero keeps the default.
type WaitConfig struct {
	Drain   Duration `yaml:"drain" json:"drain,omitempty" jsonschema_description:"How long to wait until an isolated worker has finished its requests. Default: 10m."`
	Blocked Duration `yaml:"blocked" json:"blocked,omitempty" jsonschema_description:"How long to wait for a disruption budget, or for a hold without an end, such as another action on the pool. A hold with an end lasts until that end. Default: 15m."`
	Rollout Duration `yaml:"rollout" json:"rollout,omitempty" jsonschema_description:"How long to wait for progress of a rollout, or until a replaced worker is ready. Default: 30m."`
	Poll    Duration `yaml:"poll" json:"poll,omitempty" jsonschema_description:"Time between two checks while an action waits. Default: 10s."`
}

// Duration is a time.Duration that is written like 10s, 2m or 720h.
type Duration time.Duration

// UnmarshalText parses a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a duration such as 10s, 2m or 720h", b)
	case v < 0:
		return fmt.Errorf("%q is negative: use a duration such as 10s, 2m or 720h", b)
	}
	*d = Duration(v)
	return nil
}

// A List is a list of words that may also be written as one word.
type List[T ~string] = strictyaml.List[T]

// D returns the duration as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// Default returns the configuration of `paramedic serve` without a file.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		State: StateConfig{Dir: "./paramedic-data", Retain: Duration(720 * time.Hour),
			NATS: NATSConfig{Replicas: 3}},
		Clusters: []ClusterConfig{{Name: "default"}},
		Triage: TriageConfig{Settle: Duration(10 * time.Second), ResolveHold: Duration(2 * time.Minute),
			MaxLag: Duration(time.Minute), StaleAfter: Duration(state.DefaultSettings().StaleAfter)},
		Notify:    NotifyConfig{Console: true, Slack: SlackConfig{Channel: "#llm-oncall"}},
		Remediate: RemediateConfig{Mode: "suggest"},
		Tracing:   TracingConfig{SampleRatio: 1},
	}
}
