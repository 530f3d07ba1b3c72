package ray

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/enrich/ray/raytest"
)

// dashboard returns a fake dashboard and its address. The test fails if the dashboard gets an
// unexpected request.
func dashboard(t *testing.T) (*raytest.Dashboard, string) {
	t.Helper()
	d := &raytest.Dashboard{}
	srv := httptest.NewServer(d)
	t.Cleanup(func() {
		srv.Close()
		for _, p := range d.Problems() {
			t.Errorf("Ray refuses %s", p)
		}
	})
	return d, srv.URL
}

func gpus(ips ...string) []raytest.Bundle {
	var out []raytest.Bundle
	for _, ip := range ips {
		out = append(out, raytest.Bundle{GPUs: 1, IP: ip})
	}
	return out
}

func addrs(ips ...string) []netip.Addr {
	var out []netip.Addr
	for _, ip := range ips {
		out = append(out, netip.MustParseAddr(ip))
	}
	return out
}

func TestEnginesHaveTheirAcceleratorsHosts(t *testing.T) {
	d, url := dashboard(t)
	d.Set(
		raytest.Replica{Name: "SERVE_REPLICA::llms#LLMServer:qwen2_5-72b#zz9", Bundles: gpus("10.1.0.2", "10.1.0.1", "10.1.0.2")},
		raytest.Replica{Name: "SERVE_REPLICA::LLMServer:old#aa1", Bundles: []raytest.Bundle{{IP: "10.1.0.9"},
			{GPUs: 0.5, IP: "10.1.0.3"}}}, // the form of Serve before applications had names
		raytest.Replica{Name: "SERVE_REPLICA::llms#LLMServer:lost#bb2", State: "RESCHEDULING", Bundles: gpus("10.1.0.4", "10.1.0.5", "")},
		raytest.Replica{Name: "SERVE_GANG::llms_DPServer:moe_0_0123abcd", Bundles: gpus("10.1.0.6", "fd00::7")},
		raytest.Replica{Name: "SERVE_REPLICA::llms#LLMServer:gone#cc3", State: "REMOVED", Bundles: gpus("10.1.0.1")},
		raytest.Replica{Name: "SERVE_REPLICA::llms#Tokenizer#dd4", Bundles: []raytest.Bundle{{IP: "10.1.0.1"}}},
		raytest.Replica{Name: "train", Bundles: gpus("10.1.0.1", "10.1.0.6")})
	d.Kill("10.1.0.5")
	got, err := New().Engines(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	gang := fmt.Sprintf("%032x01000000", 4)
	want := []Engine{
		{ID: gang, Hosts: addrs("10.1.0.6", "fd00::7")},
		{Deployment: "LLMServer:old", ID: "aa1", Hosts: addrs("10.1.0.3")},
		{Deployment: "LLMServer:lost", ID: "bb2", Hosts: addrs("10.1.0.4"), Lost: true},
		{Deployment: "LLMServer:qwen2_5-72b", ID: "zz9", Hosts: addrs("10.1.0.1", "10.1.0.2")},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("engines (-want +got):\n%s", d)
	}
}

// An incomplete list is an error: a part of it would split an engine into several.
func TestIncompleteAnswersAreErrors(t *testing.T) {
	many := make([]raytest.Replica, 10_001)
	for i := range many {
		many[i] = raytest.Replica{Name: fmt.Sprintf("SERVE_REPLICA::a#LLMServer:m#%05d", i), Bundles: gpus("10.1.0.1")}
	}
	for name, c := range map[string]struct {
		prepare func(*raytest.Dashboard)
		want    string
	}{
		"a token is required": {func(d *raytest.Dashboard) { d.Protect("secret") }, "requires a token"},
		"it is failing": {func(d *raytest.Dashboard) { d.Answer(http.StatusInternalServerError) },
			"answers 500 to /api/v0/placement_groups"},
		"it has no state API":         {func(d *raytest.Dashboard) { d.Answer(http.StatusNotFound) }, "answers 404"},
		"there are too many":          {func(d *raytest.Dashboard) { d.Set(many...) }, "list of placement_groups is incomplete"},
		"it answers without a result": {func(d *raytest.Dashboard) { d.Answer(http.StatusOK) }, "unknown format"},
	} {
		t.Run(name, func(t *testing.T) {
			d, url := dashboard(t)
			c.prepare(d)
			if got, err := New().Engines(t.Context(), url); err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d engines and %v, want an error with %q", len(got), err, c.want)
			}
		})
	}
}

func TestAnswersOfOtherServersAreErrors(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a page":          func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>welcome</html>") },
		"an empty object": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"a list":          func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":{"result":[]}}`) },
		"nodes are not a list": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":{"result":{"result":[{"name":"SERVE_REPLICA::a#b#c","bundles":{}}]}}}`)
		},
		"a very long name": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"data":{"result":{"result":[{"name":"SERVE_REPLICA::a#b#%s","bundles":[{"unit_resources":{"GPU":1}}]}]}}}`, strings.Repeat("c", 1<<20))
		},
		"more items than Ray's limit": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":{"result":{"result":[{}`+strings.Repeat(",{}", 10_000)+`]}}}`)
		},
		"an engine with too many bundles": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":{"result":{"result":[{"name":"SERVE_REPLICA::a#b#c","bundles":[{}`+strings.Repeat(",{}", 10_000)+`]}]}}}`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login", http.StatusFound)
		},
		"an endless answer": func(w http.ResponseWriter, _ *http.Request) {
			line := strings.Repeat(" ", 1<<20)
			for range maxAnswer>>20 + 1 {
				fmt.Fprint(w, line)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(handler)
			defer srv.Close()
			if got, err := New().Engines(t.Context(), srv.URL); err == nil || got != nil {
				t.Errorf("%v engines, and no error", got)
			}
		})
	}
}

func TestCancelledRequestIsDistinguished(t *testing.T) {
	_, url := dashboard(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New().Engines(ctx, url); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
