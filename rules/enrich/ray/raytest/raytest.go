// Package raytest is a strict fake of the part of Ray's dashboard that package ray reads: the state
// API (python/ray/dashboard/modules/state/state_head.py, state_api_utils.py).
//
// It answers with every field that Ray returns. It fails on requests that Ray refuses. It also
// fails on other unexpected requests: another method, path or parameter, a limit above Ray's, or a
// filter on a field that cannot be filtered.
package raytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Replica is a Ray Serve replica with its placement group.
type Replica struct {
	Name    string // of the group: SERVE_REPLICA::app#LLMServer:qwen-7b#x1y2z3
	State   string // empty: CREATED
	Bundles []Bundle
}

// A Bundle holds the resources that the group reserves on one node.
type Bundle struct {
	GPUs float64 // zero: a bundle of CPUs only
	IP   string  // of its node; empty: not placed
}

// A Dashboard fakes the dashboard of a cluster's head. Its zero value has no nodes and no replicas.
// It is safe for concurrent use.
type Dashboard struct {
	mu       sync.Mutex
	token    string
	status   int
	replicas []Replica
	dead     map[string]bool
	asked    []string
	problems []string
}

// Set replaces the replicas.
func (d *Dashboard) Set(replicas ...Replica) { d.do(func() { d.replicas = replicas }) }

// Kill marks the node with an address as dead. Ray still lists such a node, but no bundle refers to
// it.
func (d *Dashboard) Kill(ip string) {
	d.do(func() {
		if d.dead == nil {
			d.dead = map[string]bool{}
		}
		d.dead[ip] = true
	})
}

// Protect makes the dashboard require a token, as RAY_AUTH_MODE=token does.
func (d *Dashboard) Protect(token string) { d.do(func() { d.token = token }) }

// Answer makes every answer have the given status; zero restores normal answers.
func (d *Dashboard) Answer(status int) { d.do(func() { d.status = status }) }

// Asked returns the paths of all requests so far.
func (d *Dashboard) Asked() (paths []string) {
	d.do(func() { paths = slices.Clone(d.asked) })
	return paths
}

// Problems returns the unexpected requests.
func (d *Dashboard) Problems() (problems []string) {
	d.do(func() { problems = slices.Clone(d.problems) })
	return problems
}

func (d *Dashboard) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// ServeHTTP answers as Ray's dashboard does.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, r.URL.Path)
	if d.status != 0 {
		reply(w, d.status, "it was told to", nil)
		return
	}
	if d.token != "" && r.Header.Get("Authorization") != "Bearer "+d.token {
		http.Error(w, "Unauthorized: Missing authentication token", http.StatusUnauthorized)
		return
	}
	kind, ok := strings.CutPrefix(r.URL.Path, "/api/v0/")
	if !ok || r.Method != http.MethodGet || kind != "placement_groups" && kind != "nodes" {
		d.refuse(w, r, http.StatusNotFound, "no such resource")
		return
	}
	keep, limit, err := options(r)
	if err != nil {
		d.refuse(w, r, http.StatusInternalServerError, err.Error())
		return
	}
	all := d.nodes()
	if kind == "placement_groups" {
		all = d.groups()
	}
	found, read := slices.DeleteFunc(slices.Clone(all), func(m map[string]any) bool { return !keep(m) }), len(all)
	if kind == "nodes" && slices.Contains(r.URL.Query()["filter_predicates"], "=") {
		read = len(found) // for equality, the GCS filters nodes itself; Ray's main branch reports these as truncated
	}
	reply(w, http.StatusOK, "", map[string]any{"result": map[string]any{
		"total": len(all), "num_after_truncation": read, "num_filtered": len(found),
		"result": found[:min(limit, len(found))], "partial_failure_warning": "", "warnings": nil,
	}})
}

func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	d.problems = append(d.problems, fmt.Sprintf("%s %s: %s", r.Method, r.URL, why))
	reply(w, status, why, map[string]any{"result": nil})
}

func reply(w http.ResponseWriter, status int, message string, data map[string]any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	// If writing fails, the client reports the missing answer.
	_ = json.NewEncoder(w).Encode(map[string]any{"result": status == http.StatusOK, "msg": message, "data": data})
}

// options returns the filter of a request and its limit, which is 100 by default.
func options(r *http.Request) (keep func(map[string]any) bool, limit int, err error) {
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains([]string{"detail", "limit", "filter_keys", "filter_predicates", "filter_values"}, name) {
			return nil, 0, fmt.Errorf("the parameter %s", name)
		}
	}
	limit = 100
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit > 10_000 {
			return nil, 0, fmt.Errorf("given limit %s exceeds the supported limit 10000", text)
		}
	}
	if !strings.EqualFold(q.Get("detail"), "true") && q.Get("detail") != "1" {
		return nil, 0, fmt.Errorf("without detail there are no bundles")
	}
	keys, predicates, values := q["filter_keys"], q["filter_predicates"], q["filter_values"]
	if len(keys) != len(values) || len(keys) != len(predicates) {
		return nil, 0, fmt.Errorf("%d keys, %d predicates and %d values", len(keys), len(predicates), len(values))
	}
	for i, key := range keys {
		if key != "state" || predicates[i] != "=" && predicates[i] != "!=" {
			return nil, 0, fmt.Errorf("the filter %s%s", key, predicates[i])
		}
	}
	return func(m map[string]any) bool {
		for i := range keys {
			if strings.EqualFold(m["state"].(string), values[i]) != (predicates[i] == "=") {
				return false
			}
		}
		return true
	}, limit, nil
}

// nodeID returns a node's ID: 28 bytes in hexadecimal.
func nodeID(ip string) string { return fmt.Sprintf("%056x", ip) }

func (d *Dashboard) groups() []map[string]any {
	out := []map[string]any{}
	for i, r := range d.replicas {
		state := r.State
		if state == "" {
			state = "CREATED"
		}
		bundles := []map[string]any{}
		id := fmt.Sprintf("%032x01000000", i+1)
		for n, b := range r.Bundles {
			resources := map[string]float64{"CPU": 1}
			if b.GPUs > 0 {
				resources["GPU"], resources["accelerator_type:H100"] = b.GPUs, 0.001
			}
			node := ""
			if b.IP != "" && !d.dead[b.IP] {
				node = nodeID(b.IP)
			}
			bundles = append(bundles, map[string]any{
				"bundle_id":      map[string]any{"placement_group_id": id, "bundle_index": n},
				"unit_resources": resources, "node_id": node, "label_selector": map[string]any{}})
		}
		out = append(out, map[string]any{"placement_group_id": id, "name": r.Name, "creator_job_id": "01000000",
			"state": state, "bundles": bundles, "is_detached": true,
			"stats": map[string]any{"creation_request_received_ns": "0", "scheduling_attempt": 1,
				"scheduling_state": "FINISHED"}})
	}
	return out
}

func (d *Dashboard) nodes() []map[string]any {
	out, seen := []map[string]any{}, map[string]bool{"": true}
	for _, r := range d.replicas {
		for _, b := range r.Bundles {
			if seen[b.IP] {
				continue
			}
			seen[b.IP] = true
			state := "ALIVE"
			if d.dead[b.IP] {
				state = "DEAD"
			}
			out = append(out, map[string]any{"node_id": nodeID(b.IP), "node_ip": b.IP, "is_head_node": false,
				"state": state, "state_message": nil, "node_name": b.IP,
				"resources_total": map[string]any{"CPU": 8.0, "GPU": 4.0, "node:" + b.IP: 1.0},
				"labels":          map[string]any{}, "start_time_ms": 1, "end_time_ms": 0})
		}
	}
	return out
}
