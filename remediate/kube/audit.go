package kube

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
)

// auditing logs every request other than a read, with its outcome. It refuses a write for which may
// returns an error.
func auditing(log *slog.Logger, may func(context.Context) error) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
				return next.RoundTrip(r)
			}
			op, _ := r.Context().Value(opKey{}).(string)
			if may != nil {
				if err := may(r.Context()); err != nil {
					return nil, fmt.Errorf("not written: %w", err)
				}
			}
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
