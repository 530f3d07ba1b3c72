package survey

import (
	"fmt"
	"net/url"
	"strings"
)

// Unreachable returns the error for a Prometheus that does not answer: its address, the reason, and
// what to try.
func Unreachable(base string, why error) error {
	shown := base
	if u, err := url.Parse(base); err == nil {
		u.User, u.RawQuery, u.Fragment = nil, "", "" // either may hold a secret
		shown = strings.TrimSuffix(u.String(), "/")
	}
	reason := strings.TrimPrefix(why.Error(), "Prometheus: ")
	try := "try `curl " + shown + "/api/v1/query?query=up`"
	switch {
	case strings.Contains(reason, "connection refused"):
		try = "nothing listens there. Check host and port; a Prometheus inside of a cluster needs `kubectl " +
			"port-forward svc/prometheus 9090` and --prometheus http://127.0.0.1:9090"
	case strings.Contains(reason, "name is not found"), strings.Contains(reason, "name cannot be looked up"):
		try = "check the host's name. One of a cluster is known inside of it only: `kubectl port-forward " +
			"svc/prometheus 9090`, and --prometheus http://127.0.0.1:9090"
	case strings.Contains(reason, "in time"):
		try = "a firewall may drop the packets, or it is overloaded; " + try
	case strings.HasSuffix(reason, " 401"), strings.HasSuffix(reason, " 403"):
		try = "it wants to know who asks, and diagnose sends no credentials. Ask one behind the login, or configure " +
			"clusters[].prometheus.bearer_token_file and run `paramedic check --online`"
	case strings.HasSuffix(reason, " 404"):
		try = "that is no Prometheus query API. Give what comes before /api/v1/query; Mimir and Cortex have it below " +
			"/prometheus"
	}
	return fmt.Errorf("Prometheus at %s cannot be asked: %s; %s", shown, reason, try) //nolint:staticcheck // a name
}
