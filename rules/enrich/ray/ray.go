// Package ray asks the head of a Ray cluster which engines Ray Serve runs, and on which nodes.
// Kubernetes objects do not contain this: Ray chooses the nodes itself, by placement groups.
//
// The package only reads. It sends two GETs to the dashboard's state API, without credentials, and
// follows no redirect. It bounds the size of the answers. It returns either the complete list or an
// error, never a part.
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
	// Serve names a placement group after its replica, or after the gang of data-parallel ranks
	// that live and die together (python/ray/serve/_private/common.py).
	replicaPrefix = "SERVE_REPLICA::"
	gangPrefix    = "SERVE_GANG::"

	maxAnswer = 16 << 20 // bytes; 10,000 nodes with their resources and labels take about 10 MB
	maxItems  = 10_000   // the state API's own maximum (RAY_MAX_LIMIT_FROM_API_SERVER)
	maxID     = 64       // Serve's IDs have 8 characters, those of placement groups 36; incidents store them
)

// An Engine is a Ray Serve replica that holds accelerators, or a gang of such replicas.
type Engine struct {
	// Deployment is the name of the replica's deployment, such as LLMServer:qwen-7b. It is empty
	// for a gang, because a gang's name cannot be split.
	Deployment string
	// ID is unique within the cluster.
	ID string
	// Hosts are the addresses of the nodes where the engine holds accelerators, sorted, without
	// duplicates.
	Hosts []netip.Addr
	// Lost reports that some of its accelerators have no node now: the node failed, or Ray has not
	// found one yet.
	Lost bool
}

// A Client reads the dashboards of Ray clusters. It is safe for concurrent use.
type Client struct{ http *http.Client }

// New returns a client. It uses no proxy, because a head's address is internal to its cluster.
func New() *Client {
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.Proxy = nil
	return &Client{&http.Client{Transport: direct, CheckRedirect: enrich.RefuseRedirect}}
}

// ErrToken reports that the cluster requires a token.
var ErrToken = errors.New("it requires a token, and the bot has none")

// Engines returns the engines of the cluster whose dashboard has the given address, for example
// http://10.0.0.7:8265. They are sorted by ID. Errors may contain the address, as those of net/http
// do; enrich.Explain removes it.
func (c *Client) Engines(ctx context.Context, dashboard string) ([]Engine, error) {
	groups, err := list[placementGroup](ctx, c, dashboard, "placement_groups", filter{"state", "!=", "REMOVED"})
	if err != nil {
		return nil, err
	}
	// The filter is not "=", "ALIVE": for equality, the GCS filters nodes itself, and the dashboard
	// of Ray's main branch counts the others as truncated.
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
			return nil, errors.New("its dashboard lists a replica with a name that is not Ray's")
		}
		if ok {
			engines = append(engines, e)
		}
	}
	slices.SortFunc(engines, func(a, b Engine) int { return cmp.Compare(a.ID, b.ID) })
	return engines, nil
}

// A placementGroup holds the fields that this package reads of PlacementGroupState
// (python/ray/util/state/common.py) and of its bundles (src/ray/protobuf/common.proto).
type placementGroup struct {
	ID      string              `json:"placement_group_id"`
	Name    string              `json:"name"`
	Bundles boundedList[bundle] `json:"bundles"`
}

type bundle struct {
	Resources map[string]float64 `json:"unit_resources"`
	Node      string             `json:"node_id"` // empty: not placed now
}

// A node holds the fields that this package reads of NodeState (same file).
type node struct {
	ID string `json:"node_id"`
	IP string `json:"node_ip"`
}

// engine returns the replica that the placement group was made for. It reports false if the group
// has no accelerator, or if Ray Serve did not make it.
func (g placementGroup) engine(hosts map[string]netip.Addr) (Engine, bool) {
	name, replica := strings.CutPrefix(g.Name, replicaPrefix)
	if !replica && !strings.HasPrefix(g.Name, gangPrefix) {
		return Engine{}, false
	}
	e := Engine{ID: g.ID}
	if parts := strings.Split(name, "#"); replica &&
		len(parts) >= 2 { // application#deployment#replica; the application may be missing
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

// A boundedList is a JSON list that is refused if it is longer than Ray's limit. Without the limit,
// a hostile answer could use many times its own size in memory.
type boundedList[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (f *boundedList[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	switch start, err := d.Token(); {
	case err != nil || start == nil: // null
		return err
	case start != json.Delim('['):
		return errors.New("no list")
	}
	out := boundedList[T]{}
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
	Total    int            `json:"total"`                // at the source
	Read     int            `json:"num_after_truncation"` // from the source
	Filtered int            `json:"num_filtered"`         // of the items read, by the filter
	Result   boundedList[T] `json:"result"`
}

type filter struct{ key, predicate, value string }

// list returns all items of one kind, or an error.
func list[T any](ctx context.Context, c *Client, dashboard, kind string, f filter) ([]T, error) {
	q := url.Values{"detail": {"true"}, "limit": {strconv.Itoa(maxItems)}, "filter_keys": {f.key},
		"filter_predicates": {f.predicate}, "filter_values": {f.value}}
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
		return nil, fmt.Errorf("its dashboard answers /api/v0/%s in an unknown format", kind)
	}
	if all.Total > all.Read || all.Filtered > len(all.Result) {
		return nil, fmt.Errorf("its list of %s is incomplete", kind)
	}
	return all.Result, nil
}
