package enrich

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"paramedic/rules/signals"
	"paramedic/rules/topology"
	"paramedic/state"
)

// merge merges the readings of one gathering, in the order of the sources.
type merge struct {
	query    Query
	wanted   []signals.Signal
	readings []Reading

	workers    []state.Worker
	located    map[string]bool          // the pods of pages that do not name their pod
	shared     map[string]bool          // hosts that have pages besides those of one pod
	guessed    bool                     // derived from labels, so their routes are unknown
	podless    bool                     // only the addresses of the workers are known
	alerted    string                   // the pool as the alerts name it
	byPod      map[string]*state.Worker // by namespace/pod, and by /pod
	byInstance map[string]*state.Worker
	byNode     map[string][]*state.Worker
	poolOf     map[string]string // namespace/model in lower case → the one pool that serves it; "" if several do
	modelName  map[string]string // lower case → as the workers write it
}

func (m *merge) evidence(ev *state.Evidence) {
	m.dropEnded()
	m.locate()
	m.findWorkers()
	m.index()
	m.scraped()
	m.follow()
	ev.About = m.about()
	m.alerted = m.query.Scope.Pool
	m.query.Scope = m.ownModel(m.ownPool(m.query.Scope))
	type what struct {
		signal string
		of     place
		text   string
	}
	read := 0
	for _, r := range m.readings {
		read += len(r.Samples)
	}
	ev.Samples = make([]state.Sample, 0, read)
	seen := make(map[what]int, read)
	had := map[string]bool{}
	// began holds by sample the start of the past whose first minutes are its baseline, or zero if
	// its baseline is of an hour before.
	var began []time.Time
	given := map[int]origin{} // by sample that has a model
	for from, r := range m.readings {
		for _, s := range r.Samples {
			by := origin{from, strings.ToLower(s.Entity.Model)}
			s.Entity = m.resolve(s.Entity)
			if !m.inScope(s.Entity) {
				continue
			}
			key := what{s.Signal, placeOf(s.Entity), s.Text}
			if at, ok := seen[key]; ok { // an earlier source has this sample already
				have := &ev.Samples[at]
				if first := given[at]; by.differs(first) && s.Entity.Pod+s.Entity.Pool != "" {
					m.together(have, s)
					continue
				}
				if s.Baseline != nil && (have.Baseline == nil || r.Began.IsZero() && !began[at].IsZero()) {
					have.Baseline, began[at] = s.Baseline, r.Began
				}
				fill(have, s)
				// Only the API server sees that a Deployment went back to an older ReplicaSet.
				if s.Signal == rolloutAge {
					have.Value = min(have.Value, s.Value)
				}
				continue
			}
			had[s.Signal] = true
			seen[key] = len(ev.Samples)
			if by.model != "" {
				given[len(ev.Samples)] = by
			}
			ev.Samples = append(ev.Samples, s)
			if s.Baseline == nil {
				began = append(began, time.Time{})
			} else {
				began = append(began, r.Began)
			}
		}
	}
	m.exitCodes(ev.Samples)
	ev.Samples = withoutOthersLimits(ev.Samples)
	ev.Samples = m.once(ev.Samples)
	for i := range ev.Samples {
		s := &ev.Samples[i]
		if was := s.Baseline; was != nil {
			if s.Baseline = usualValue(s, m.query.Onset); s.Baseline != was {
				s.HourAgo = was
			}
		}
	}
	keepSeries(ev.Samples, m.query.Scope)
	ev.Gone = m.gone()
	slices.SortStableFunc(ev.Samples, func(a, b state.Sample) int {
		if c := strings.Compare(a.Signal, b.Signal); c != 0 {
			return c
		}
		return cmp.Or(CompareEntities(a.Entity, b.Entity), strings.Compare(a.Text, b.Text))
	})
	ev.Workers = m.workers
	ev.Missing = append(append(ev.Missing, m.missing(had)...), standIn(began)...)
	slices.SortStableFunc(ev.Missing, func(a, b state.Missing) int { return cmp.Compare(a.Signal, b.Signal) })
}

// A place is an entity without its model, because the model is only another name of it.
type place struct{ namespace, pool, pod, instance, node, gpu string }

func placeOf(e state.Entity) place {
	return place{e.Namespace, e.Pool, e.Pod, e.Instance, e.Node, e.GPU}
}

// CompareEntities orders entities by namespace, pool, pod, instance, node and GPU.
func CompareEntities(a, b state.Entity) int {
	for _, by := range [...][2]string{{a.Namespace, b.Namespace}, {a.Pool, b.Pool}, {a.Pod, b.Pod},
		{a.Instance, b.Instance}, {a.Node, b.Node}, {a.GPU, b.GPU}} {
		if c := strings.Compare(by[0], by[1]); c != 0 {
			return c
		}
	}
	return 0
}

const rolloutAge = "rollout_age"

// fill adds to a sample the past values and charts that only a later source has.
func fill(have *state.Sample, more state.Sample) {
	if have.DayAgo == nil {
		have.DayAgo = more.DayAgo
	}
	if have.WeekAgo == nil {
		have.WeekAgo = more.WeekAgo
	}
	if have.Earlier == nil {
		have.Earlier = more.Earlier
	}
	if have.Z == nil {
		have.Z = more.Z
	}
	if len(have.Series) == 0 {
		have.Series = more.Series
	}
}

// ownPool replaces a scope's pool by its own name if an alert used the name of its owner, its
// leader or its route. It clears a name that stands for several pools; the diagnosis then decides.
// It also clears an unknown name if the routes are unknown.
func (m *merge) ownPool(s state.Scope) state.Scope {
	if s.Pool == "" {
		return s
	}
	var behind []string
	for _, w := range m.workers {
		if differ(w.Namespace, s.Namespace) || w.Pool == "" {
			continue
		}
		if w.Pool == s.Pool {
			return s
		}
		known := w.Owner == s.Pool || w.Pod == s.Pool ||
			slices.ContainsFunc(w.Routes, func(r string) bool { return strings.HasSuffix(r, "/"+s.Pool) })
		if known && !slices.Contains(behind, w.Pool) {
			behind = append(behind, w.Pool)
		}
	}
	switch {
	case len(behind) == 1:
		s.Pool = behind[0]
	case len(behind) > 1 || m.guessed && len(m.workers) > 0:
		s.Pool = ""
	}
	return s
}

// ownModel replaces the model of a scope by the one that its pool reports, if no worker reports it.
// A model can have several names, of which engines report the first.
func (m *merge) ownModel(s state.Scope) state.Scope {
	var of []string
	for _, w := range m.workers {
		if strings.EqualFold(w.Model, s.Model) {
			return s
		}
		if w.Pool == s.Pool && s.Pool != "" && w.Model != "" && !differ(w.Namespace, s.Namespace) && !slices.Contains(of, w.Model) {
			of = append(of, w.Model)
		}
	}
	if len(of) == 1 && s.Model != "" {
		s.Model = of[0]
	}
	return s
}

func loopback(instance string) bool {
	h := host(instance)
	return h == "localhost" || strings.HasPrefix(h, "127.") || h == "::1"
}

// resolve completes an entity with its worker's pool, model and node.
func (m *merge) resolve(e state.Entity) state.Entity {
	var w *state.Worker
	switch {
	case e.Pod != "":
		w = m.byPod[e.Namespace+"/"+e.Pod]
	case e.Instance != "":
		if w = m.byInstance[e.Instance]; w == nil && !loopback(e.Instance) && !m.ofAnother(e) {
			w = m.byInstance[host(e.Instance)]
		}
	}
	if w != nil {
		e.Namespace, e.Pod = cmp.Or(w.Namespace, e.Namespace), cmp.Or(w.Pod, e.Pod)
		e.Pool, e.Model, e.Node = cmp.Or(w.Pool, e.Pool), cmp.Or(w.Model, e.Model), cmp.Or(w.Node, e.Node)
		if e.Pod != "" {
			e.Instance = "" // one worker has one name in all sources
		}
	}
	if w == nil && m.ofUnknownWorker(e) {
		return state.Entity{Cluster: e.Cluster, Node: e.Node, GPU: e.GPU}
	}
	if e.Pool == "" && e.Pod != "" {
		e.Pool = topology.PoolOf(e.Pod)
	}
	if name := m.modelName[strings.ToLower(e.Model)]; name != "" {
		e.Model = name
	}
	if e.Pool == "" && e.Model != "" && e.Pod == "" && e.Instance == "" {
		pool, served := m.poolOf[e.Namespace+"/"+strings.ToLower(e.Model)]
		if e.Pool = pool; !served {
			// A gateway counts by the name in the request: an adapter's, which no engine reports.
			if e.Pool = m.onlyPool(e.Namespace); e.Pool != "" {
				e.Model = ""
			}
		}
	}
	if e.Model == "" && e.Pod == "" && e.Instance == "" && e.Node == "" && e.GPU == "" && e.Pool == "" {
		e.Pool = m.onlyPool(e.Namespace) // a series of a whole namespace belongs to its pool if there is only one
	}
	return e
}

// ofUnknownWorker reports whether the entity is a GPU of a pod that may be a worker of the scope.
// The exporter knows its pod, but the workers are known by address only, so the two cannot be
// matched.
func (m *merge) ofUnknownWorker(e state.Entity) bool {
	s := m.query.Scope
	return m.podless && e.GPU != "" && e.Node != "" && e.Pod != "" &&
		!differ(e.Namespace, s.Namespace) && !slices.Contains(s.Pods, e.Pod)
}

func (m *merge) onlyPool(namespace string) string {
	only := ""
	for _, w := range m.workers {
		if differ(w.Namespace, namespace) || w.Pool == "" || w.Pool == only {
			continue
		}
		if only != "" {
			return ""
		}
		only = w.Pool
	}
	return only
}

// inScope reports whether an entity belongs to the incident's scope, peers included. Unknown labels
// do not exclude it.
func (m *merge) inScope(e state.Entity) bool {
	s := m.query.Scope
	if e.Pod == "" && e.Instance == "" && (e.Node != "" || e.GPU != "") {
		return m.nodeInScope(e.Node)
	}
	if slices.Contains(s.Pods, e.Pod) && e.Pod != "" {
		return true
	}
	if e.GPU != "" && slices.Contains(s.Nodes, e.Node) {
		return true
	}
	if differ(e.Namespace, s.Namespace) || differ(e.Pool, s.Pool) ||
		differ(strings.ToLower(e.Model), strings.ToLower(s.Model)) {
		return false
	}
	if s.Namespace == "" && s.Pool == "" && s.Model == "" && len(s.Nodes) > 0 && !slices.Contains(s.Nodes, e.Node) {
		return false
	}
	// A router or an exporter is scraped like a worker, but has neither a model nor a pool of the
	// fleet.
	return e.Model != "" || e.Pool != "" && m.servesPool(e) || e.Instance != "" && m.byInstance[e.Instance] != nil
}

// dropEnded drops the samples of pods that ended, as evicted pods do, which stay on record. They
// are no workers, unless the scope names them.
func (m *merge) dropEnded() {
	ended := map[[2]string]bool{}
	of := func(s state.Sample) [2]string { return [2]string{s.Entity.Namespace, s.Entity.Pod} }
	for _, r := range m.readings {
		for _, s := range r.Samples {
			if s.Signal == "pod_ended" && !slices.Contains(m.query.Scope.Pods, s.Entity.Pod) {
				ended[of(s)] = true
			}
		}
	}
	if len(ended) == 0 {
		return
	}
	for i := range m.readings {
		r := &m.readings[i]
		r.Samples = slices.DeleteFunc(slices.Clone(r.Samples), func(s state.Sample) bool { return ended[of(s)] })
	}
}

// withoutOthersLimits drops memory limits that a pod exceeds. No container can exceed its own
// limit, so these are the limits of sidecars beside an engine without one.
func withoutOthersLimits(samples []state.Sample) []state.Sample {
	used := map[place]float64{}
	for _, s := range samples {
		if s.Signal == "container_memory" {
			used[placeOf(s.Entity)] = s.Value
		}
	}
	return slices.DeleteFunc(samples, func(s state.Sample) bool {
		return s.Signal == "container_memory_limit" && used[placeOf(s.Entity)] > 1.02*s.Value
	})
}

func (m *merge) nodeInScope(node string) bool {
	s := m.query.Scope
	if slices.Contains(s.Nodes, node) {
		return true
	}
	if s.Namespace == "" && s.Pool == "" && s.Model == "" {
		return len(s.Nodes) == 0
	}
	if len(m.byNode) == 0 {
		return true
	}
	return slices.ContainsFunc(m.byNode[node], func(w *state.Worker) bool {
		return !differ(w.Namespace, s.Namespace) && !differ(w.Pool, s.Pool) &&
			!differ(strings.ToLower(w.Model), strings.ToLower(s.Model))
	})
}

func (m *merge) servesPool(e state.Entity) bool {
	if e.Pool == m.query.Scope.Pool || m.podless && e.Pool == m.alerted {
		return true
	}
	return slices.ContainsFunc(m.workers, func(w state.Worker) bool {
		return w.Pool == e.Pool &&
			!differ(w.Namespace, e.Namespace)
	})
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// exitCodes adds the exit code to a termination's reason if a source read them as two series.
func (m *merge) exitCodes(samples []state.Sample) {
	codes := map[place]float64{}
	for _, s := range samples {
		if s.Signal == "pod_exit_code" {
			codes[placeOf(s.Entity)] = s.Value
		}
	}
	for i, s := range samples {
		if code, ok := codes[placeOf(s.Entity)]; ok && s.Signal == "pod_last_terminated" {
			samples[i].Value = code
		}
	}
}
