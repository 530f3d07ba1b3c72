package kubernetes

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A gate is a proxy between a bot and the API server. It can run a function before or after a
// write.
type gate struct {
	URL string

	mu     sync.Mutex
	before func() (pass bool) // runs before a write, which is only sent if it returns true
	after  func()             // runs after a write, whose answer is dropped
}

// newGate serves the API server at another address, with a certificate of the cluster's CA.
func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{}
	target := must(url.Parse(control.Config.Host))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(control.CA())
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true},
	}
	config := must(control.ServerTLS())(t)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{TLSConfig: config, ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet || r.URL.Query().Has("dryRun") {
				proxy.ServeHTTP(w, r)
				return
			}
			g.mu.Lock()
			before, after := g.before, g.after
			g.before, g.after = nil, nil
			g.mu.Unlock()
			if before != nil && !before() {
				return
			}
			if after == nil {
				proxy.ServeHTTP(w, r)
				return
			}
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			after()
		})}
	go server.ServeTLS(l, "", "")
	t.Cleanup(func() { server.Close() })
	g.URL = "https://" + l.Addr().String()
	return g
}

// once sets the functions for the next write.
func (g *gate) once(before func() (pass bool), after func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after = before, after
}
