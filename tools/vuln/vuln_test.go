package main

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// database serves a list of one vulnerability: in a function of Go's package path.
func database(t *testing.T, function string) string {
	t.Helper()
	pages := map[string]string{
		"/index/db.json":      `{"modified": "2026-01-02T03:04:05Z"}`,
		"/index/modules.json": `[{"path": "stdlib", "vulns": [{"id": "GO-2026-9999", "modified": "2026-01-02T03:04:05Z"}]}]`,
		"/ID/GO-2026-9999.json": `{"schema_version": "1.3.1", "id": "GO-2026-9999", "modified": "2026-01-02T03:04:05Z",
			"summary": "A made-up hole in path", "database_specific": {"url": "https://example.com"}, "affected": [{"package": {"name": "stdlib", "ecosystem": "Go"},
			"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
			"ecosystem_specific": {"imports": [{"path": "path", "symbols": ["` + function + `"]}]}}]}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[strings.TrimSuffix(r.URL.Path, ".gz")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		z := gzip.NewWriter(w)
		_, _ = z.Write([]byte(page))
		_ = z.Close()
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func check(t *testing.T, db string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), []string{"-db", db, "-root", "testdata/probe", "."}, &out)
	return out.String(), err
}

func TestReachedVulnerabilityFails(t *testing.T) {
	out, err := check(t, database(t, "Base"))
	if err == nil || !strings.Contains(out, "GO-2026-9999") || !strings.Contains(out, "path.Base") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestVulnerabilityOutOfReachPasses(t *testing.T) {
	if out, err := check(t, database(t, "Match")); err != nil || !strings.Contains(out, "No vulnerabilities found") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSilentDatabaseIsToldAndPasses(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer ill.Close()
	for _, db := range []string{gone.URL, ill.URL} {
		if out, err := check(t, db); err != nil || !strings.HasPrefix(out, "NOT CHECKED: known vulnerabilities, because "+db+": it does not answer: ") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// A wrong address would otherwise never check anything.
func TestOtherServerFails(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if out, err := check(t, other.URL); err == nil || !strings.Contains(err.Error(), "is no list of vulnerabilities") {
		t.Errorf("%v\n%s", err, out)
	}
}
