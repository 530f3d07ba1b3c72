package kube

import (
	"log/slog"
	"net/http"
)

// auditing logs every request other than a read, with its outcome.
func auditing(log *slog.Logger) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
				return next.RoundTrip(r)
			}
			op, _ := r.Context().Value(opKey{}).(string)
			attrs := []any{"verb", r.Method, "path", r.URL.Path, "op", op, "dry_run", r.URL.Query().Has("dryRun")}
			resp, err := next.RoundTrip(r)
			if err != nil {
				log.WarnContext(r.Context(), "cluster write", append(attrs, "err", err)...)
				return resp, err
			}
			log.InfoContext(r.Context(), "cluster write", append(attrs, "status", resp.StatusCode)...)
			return resp, nil
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
