package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// What a bot refuses is not counted as taken, and a redirect is not followed to where it leads.
func TestAStormCountsWhatWasTaken(t *testing.T) {
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			http.Error(w, "too much", http.StatusTooManyRequests)
		case 2:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}
	})
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	server := httptest.NewServer(mux)
	defer server.Close()
	var out bytes.Buffer
	c := &cli{out: &out}
	err := c.storm(t.Context(), storm{url: server.URL + "/hook", alerts: 50, perPayload: 10, senders: 2, pods: 4})
	if err == nil || !strings.Contains(err.Error(), "20 alerts not taken") {
		t.Errorf("error %v", err)
	}
	if !strings.HasPrefix(out.String(), "30 of 50 alerts taken, in 5 payloads") {
		t.Error(out.String())
	}
}
