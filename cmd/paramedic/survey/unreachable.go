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
		try = "nothing listens there. Check host and port. For a Prometheus inside a cluster, run `kubectl " +
			"port-forward svc/prometheus 9090` and use --prometheus http://127.0.0.1:9090"
	case strings.Contains(reason, "name is not found"), strings.Contains(reason, "name cannot be looked up"):
		try = "check the host name. The name of a Service resolves only inside its cluster: run `kubectl port-forward " +
			"svc/prometheus 9090` and use --prometheus http://127.0.0.1:9090"
	case strings.Contains(reason, "in time"):
		try = "a firewall may drop the packets, or Prometheus is overloaded; " + try
	case strings.HasSuffix(reason, " 401"), strings.HasSuffix(reason, " 403"):
		try = "it needs a login, and diagnose sends no credentials. Use an address without a login, or set " +
			"clusters[].prometheus.bearer_token_file and run `paramedic check --online`"
	case strings.HasSuffix(reason, " 404"):
		try = "this is not a Prometheus query API. Use the part of the URL before /api/v1/query; for Mimir and Cortex it " +
			"ends in /prometheus"
	}
	return fmt.Errorf("the query to Prometheus at %s failed: %s; %s", shown, reason, try)
}
