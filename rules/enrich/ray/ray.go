// Package ray asks the head of a Ray cluster which engines Ray Serve runs and on which of the
// cluster's nodes each of them is. No object of Kubernetes says that: Ray chooses the nodes itself,
// by placement groups.
//
// It promises only to read (two GETs of the dashboard's state API, no credential, no redirect
// followed), answers that are bounded in length, and the whole of what there is or an error, never
// a part of it.
package ray

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/enrich"
)

const (
	// Serve names a placement group after the replica that it was made for, or for whose gang of
	// data-parallel ranks, which live and die together (python/ray/serve/_private/common.py).
	replicaPrefix = "SERVE_REPLICA::"
	gangPrefix    = "SERVE_GANG::"

	maxAnswer = 16 << 20 // bytes; 10,000 nodes with their resources and labels are about 10 MB
	maxItems  = 10_000   // the most that the state API gives at once (RAY_MAX_LIMIT_FROM_API_SERVER)
	maxID     = 64       // Serve's have 8 characters and placement groups' 36; they are kept with incidents
)

// An Engine is a replica of a deployment of Ray Serve that holds accelerators, or a gang of them.
type Engine struct {
	// Deployment is the name of the replica's deployment, LLMServer:qwen-7b; empty for a gang,
	// whose name cannot be taken apart.
	Deployment string
	// ID tells the engine from every other of its cluster.
	ID string
	// Hosts are the addresses of the nodes where it holds accelerators, each once, in order.
	Hosts []netip.Addr
	// Lost says that some of its accelerators are nowhere now: their node is gone, or was not found
	// yet.
	Lost bool
}

// A Client reads the dashboards of Ray clusters. It is safe for concurrent use.
type Client struct{ http *http.Client }

// New makes a client. It uses no proxy: a head's address is one of its cluster's, which no proxy
// knows.
func New() *Client {
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.Proxy = nil
	return &Client{&http.Client{Transport: direct, CheckRedirect: enrich.RefuseRedirect}}
}

// ErrToken is the answer of a cluster that wants a token.
var ErrToken = errors.New("it asks for a token, and this bot holds none")

// Engines are those of the cluster whose dashboard answers at an address, http://10.0.0.7:8265, in
// a stable order. Errors may hold the address, as those of net/http do: enrich.Explain says them
// without.
func (c *Client) Engines(ctx context.Context, dashboard string) ([]Engine, error) {
	groups, err := list[placementGroup](ctx, c, dashboard, "placement_groups", filter{"state", "!=", "REMOVED"})
	if err != nil {
		return nil, err
	}
	// Not "=", "ALIVE": by equality the GCS itself leaves nodes out, and the dashboard of Ray's
	// main branch counts these as cut off.
	nodes, err := list[node](ctx, c, dashboard, "nodes", filter{"state", "!=", "DEAD"})
	if err != nil {
		return nil, err
	}
	hosts := map[string]netip.Addr{}
	for _, n := range nodes {
		if ip, err := netip.ParseAddr(n.IP); err == nil {
			hosts[n.ID] = ip.Unmap()
		}
	}
	var engines []Engine
	for _, g := range groups {
		e, ok := g.engine(hosts)
		if len(e.ID) > maxID {
			return nil, errors.New("its dashboard tells of a replica whose name is none of Ray's")
		}
		if ok {
			engines = append(engines, e)
		}
	}
	slices.SortFunc(engines, func(a, b Engine) int { return cmp.Compare(a.ID, b.ID) })
	return engines, nil
}

// A placementGroup is what the state API says of one (PlacementGroupState in
// python/ray/util/state/common.py, bundles as in src/ray/protobuf/common.proto).
type placementGroup struct {
	ID      string      `json:"placement_group_id"`
	Name    string      `json:"name"`
	Bundles few[bundle] `json:"bundles"`
}

type bundle struct {
	Resources map[string]float64 `json:"unit_resources"`
	Node      string             `json:"node_id"` // empty: it has no place now
}

// A node is what it says of one (NodeState, same file).
type node struct {
	ID string `json:"node_id"`
	IP string `json:"node_ip"`
}

// engine is the replica that a placement group was made for; none where it has no accelerator, or
// where somebody else made it.
func (g placementGroup) engine(hosts map[string]netip.Addr) (Engine, bool) {
	name, replica := strings.CutPrefix(g.Name, replicaPrefix)
	if !replica && !strings.HasPrefix(g.Name, gangPrefix) {
		return Engine{}, false
	}
	e := Engine{ID: g.ID}
	if parts := strings.Split(name, "#"); replica && len(parts) >= 2 { // application#deployment#replica; the first may be missing
		e.Deployment, e.ID = parts[len(parts)-2], parts[len(parts)-1]
	}
	accelerated := false
	for _, b := range g.Bundles {
		if b.Resources["GPU"] <= 0 && b.Resources["TPU"] <= 0 {
			continue
		}
		accelerated = true
		if host, ok := hosts[b.Node]; ok {
			e.Hosts = append(e.Hosts, host)
		} else {
			e.Lost = true
		}
	}
	slices.SortFunc(e.Hosts, netip.Addr.Compare)
	e.Hosts = slices.Compact(e.Hosts)
	return e, accelerated
}

// few is a list that is refused once it is longer than Ray's are: a hostile one may have as many
// items as its length allows, and each takes many times the room that it took there.
type few[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (f *few[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	switch start, err := d.Token(); {
	case err != nil || start == nil: // null
		return err
	case start != json.Delim('['):
		return errors.New("no list")
	}
	out := few[T]{}
	for d.More() {
		if len(out) == maxItems {
			return fmt.Errorf("more than %d items", maxItems)
		}
		var item T
		if err := d.Decode(&item); err != nil {
			return err
		}
		out = append(out, item)
	}
	*f = out
	return nil
}

// A listing is one answer of the state API (ListApiResponse, same file).
type listing[T any] struct {
	Total    int    `json:"total"`                // at the source
	Read     int    `json:"num_after_truncation"` // from the source
	Filtered int    `json:"num_filtered"`         // of these, by the filter
	Result   few[T] `json:"result"`
}

type filter struct{ key, predicate, value string }

// list asks for all of one kind.
func list[T any](ctx context.Context, c *Client, dashboard, kind string, f filter) ([]T, error) {
	q := url.Values{"detail": {"true"}, "limit": {strconv.Itoa(maxItems)}, "filter_keys": {f.key}, "filter_predicates": {f.predicate}, "filter_values": {f.value}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, dashboard+"/api/v0/"+kind+"?"+q.Encode(), nil)
	if err != nil {
		return nil, errors.New("its dashboard's address is none")
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, ErrToken
	default:
		return nil, fmt.Errorf("its dashboard answers %d to /api/v0/%s", resp.StatusCode, kind)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("its list of %s is larger than %d MiB", kind, maxAnswer>>20)
	}
	var answer struct {
		Data struct {
			Result listing[T] `json:"result"`
		} `json:"data"`
	}
	err = json.Unmarshal(body, &answer)
	all := answer.Data.Result
	if err != nil || all.Result == nil {
		return nil, fmt.Errorf("its dashboard answers /api/v0/%s with something else", kind)
	}
	if all.Total > all.Read || all.Filtered > len(all.Result) {
		return nil, fmt.Errorf("it tells of a part of its %s only", kind)
	}
	return all.Result, nil
}
