package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTracingProblemsAreNamed(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "good", []byte("Authorization: Bearer c0llect0r\n X-Scope-OrgID:sre\n"))
	put(t, dir, "bad", []byte("Authorization: Bearer a\nhunter2\n"))
	put(t, dir, "odd", []byte("Bad Name: hunter2\n"))
	put(t, dir, "empty", nil)
	for text, want := range map[string]string{
		"endpoint: http://otel:4318":                                     "",
		"endpoint: http://otel:4318, headers_file: DIR/good":             "",
		"endpoint: http://otel:4318, sample_ratio: 0":                    "",
		"endpoint: otel:4318":                                            "tracing.endpoint: must be an http:// or https:// URL",
		"endpoint: http://me:hunter2@otel:4318":                          "tracing.endpoint: must not contain a user or a password",
		"endpoint: http://otel:4318, sample_ratio: 1.5":                  "tracing.sample_ratio: is 1.5: it must be from 0 to 1",
		"headers_file: DIR/good":                                         "tracing.headers_file: has no use without tracing.endpoint",
		"endpoint: http://otel:4318, headers_file: DIR/none":             "tracing.headers_file: cannot be read",
		"endpoint: http://otel:4318, headers_file: DIR/empty":            "tracing.headers_file: ",
		"endpoint: http://otel:4318, headers_file: DIR/bad":              "tracing.headers_file: line 2 is no header: write it as Name: value",
		"endpoint: http://otel:4318, headers_file: DIR/odd":              "tracing.headers_file: line 1 is no header",
		`endpoint: http://otel:4318, headers_file: "${NO_SUCH_HEADERS}"`: "environment variable NO_SUCH_HEADERS is not set",
	} {
		_, err := Parse("paramedic.yaml", []byte("tracing: {"+strings.ReplaceAll(text, "DIR", dir)+"}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error has the secret: %v", text, err)
		}
	}
}

// A rotated token is used without a restart.
func TestHeadersFollowTheirFile(t *testing.T) {
	dir := t.TempDir()
	c := TracingConfig{Endpoint: "http://otel:4318", HeadersFile: filepath.Join(dir, "headers")}
	for _, token := range []string{"Bearer first", "Bearer the second"} {
		put(t, dir, "headers", []byte("authorization: "+token+"\n"))
		if got, err := c.Headers(); err != nil || got.Get("Authorization") != token {
			t.Errorf("the headers are %v, %v", got, err)
		}
	}
}
