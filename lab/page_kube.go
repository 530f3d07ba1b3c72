package lab

import (
	"strconv"

	"paramedic/lab/metrics"
)

// fillKube adds kube-state-metrics' samples of the pool and its nodes, and cAdvisor's of its
// containers.
func (f *Fleet) fillKube(p *metrics.Page) {
	ns := f.cfg.Namespace
	for _, w := range f.workers {
		f.kubePod(p, w)
	}
	f.kubeDeployment(p)
	for _, n := range f.nodes {
		for _, c := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
			for _, status := range []string{"true", "false", "unknown"} {
				want := "false"
				switch {
				case !n.SeenReady(f.now):
					want = "unknown"
				case c == "Ready":
					want = "true"
				}
				p.Gauge("kube_node_status_condition", "The condition of a cluster node.", metrics.Bool(status == want), "node", n.Name,
					"condition", c, "status", status)
			}
		}
		p.Gauge("kube_node_spec_unschedulable", "Whether a node can schedule new pods.", metrics.Bool(n.Cordoned), "node", n.Name)
	}
	p.Gauge("kube_poddisruptionbudget_status_pod_disruptions_allowed", "Number of pod disruptions that are currently allowed",
		float64(f.budget().DisruptionsAllowed), "namespace", ns, "poddisruptionbudget", f.cfg.Pool)
}

func (f *Fleet) kubePod(p *metrics.Page, w *worker) {
	nodeName := ""
	if w.node != nil {
		nodeName = w.node.Name
	}
	set := f.cfg.Pool + "-" + w.hash
	pod := []string{"namespace", f.cfg.Namespace, "pod", w.name, "uid", w.uid}
	with := func(more ...string) []string { return append(append([]string{}, pod...), more...) }
	box := func(more ...string) []string {
		return with(append([]string{"container", f.cfg.Kind.Container()}, more...)...)
	}
	p.Gauge("kube_pod_info", "Information about pod.", 1,
		with("node", nodeName, "pod_ip", w.ip, "created_by_kind", "ReplicaSet", "created_by_name", set)...)
	p.Gauge("kube_pod_owner", "Information about the Pod's owner.", 1,
		with("owner_kind", "ReplicaSet", "owner_name", set, "owner_is_controller", "true")...)
	p.Gauge("kube_pod_labels", "Kubernetes labels converted to Prometheus labels.", 1,
		with("label_app", f.cfg.Pool, "label_pod_template_hash", w.hash)...)
	p.Gauge("kube_pod_start_time", "Start time in unix timestamp for a pod.", float64(f.at(w.created).Unix()), pod...)
	p.Gauge("kube_pod_created", "Unix creation timestamp", float64(f.at(w.created).Unix()), pod...)
	if w.leaving {
		p.Gauge("kube_pod_deletion_timestamp", "Unix deletion timestamp", float64(f.at(w.leaveBy).Unix()), pod...)
	}
	for _, ph := range []string{"Pending", "Running", "Failed", "Succeeded", "Unknown"} {
		is := ph == "Pending" && w.waitsForStart() || ph == "Running" && !w.waitsForStart()
		p.Gauge("kube_pod_status_phase", "The pods current phase.", metrics.Bool(is), with("phase", ph)...)
	}
	for _, c := range []string{"true", "false", "unknown"} {
		is := c == "true" && w.seenReady(f.now) || c == "false" && !w.seenReady(f.now)
		p.Gauge("kube_pod_status_ready", "Describes whether the pod is ready to serve requests.", metrics.Bool(is),
			with("condition", c)...)
	}
	if w.phase == podPending {
		p.Gauge("kube_pod_status_unschedulable", "Describes the unschedulable status for the pod.", 1, pod...)
	}
	p.Gauge("kube_pod_container_info", "Information about a container in a pod.", 1, box("image", w.image)...)
	p.Counter("kube_pod_container_status_restarts_total", "The number of container restarts per container.", float64(w.restarts), box()...)
	p.Gauge("kube_pod_container_status_ready", "Describes whether the containers readiness check succeeded.",
		metrics.Bool(w.seenReady(f.now)), box()...)
	if w.lastReason != "" {
		p.Gauge("kube_pod_container_status_last_terminated_reason", "Describes the last reason the container was in terminated state.", 1,
			box("reason", w.lastReason)...)
		p.Gauge("kube_pod_container_status_last_terminated_exitcode", "Describes the exit code for the last container in terminated state.",
			float64(w.lastCode), box()...)
		p.Gauge("kube_pod_container_status_last_terminated_timestamp", "Last terminated time for a pod container in unix timestamp.",
			float64(f.at(w.lastAt).Unix()), box()...)
	}
	if why := w.waitingReason(); why != "" {
		p.Gauge("kube_pod_container_status_waiting_reason", "Describes the reason the container is currently in waiting state.", 1,
			box("reason", why)...)
	}
	p.Gauge("kube_pod_container_resource_limits", "The number of requested limit resource by a container.", float64(f.memoryLimit(w)),
		box("node", nodeName, "resource", "memory", "unit", "byte")...)
	p.Gauge("kube_pod_container_resource_limits", "The number of requested limit resource by a container.", float64(f.cfg.GPUsPerWorker),
		box("node", nodeName, "resource", "nvidia_com_gpu", "unit", "integer")...)
	p.Gauge("kube_pod_container_resource_limits", "The number of requested limit resource by a container.", f.cpuLimit(),
		box("node", nodeName, "resource", "cpu", "unit", "core")...)
	if w.waitsForStart() || w.phase == podBackOff || w.phase == podLost {
		return
	}
	cadvisor := []string{"namespace", f.cfg.Namespace, "pod", w.name, "container", f.cfg.Kind.Container(), "image", w.image, "node",
		nodeName}
	p.Gauge("container_memory_working_set_bytes", "Current working set in bytes.", float64(int64(w.memory)), cadvisor...)
	p.Gauge("container_spec_memory_limit_bytes", "Memory limit for the container.", float64(f.memoryLimit(w)), cadvisor...)
	p.Counter("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.", float64(int64(w.cpuPeriods)),
		cadvisor...)
	p.Counter("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals.", float64(int64(w.cpuThrottled)),
		cadvisor...)
	p.Counter("container_oom_events_total", "Count of out of memory events observed for the container",
		metrics.Bool(w.lastReason == "OOMKilled"), cadvisor...)
}

func (f *Fleet) kubeDeployment(p *metrics.Page) {
	d := &f.deploy
	updated, ready, all := 0, 0, 0
	perSet := map[string]int{}
	for _, w := range f.workers {
		if w.leaving {
			continue
		}
		all++
		updated += boolInt(w.hash == d.hash)
		ready += boolInt(w.seenReady(f.now))
		perSet[w.hash]++
	}
	l := []string{"namespace", f.cfg.Namespace, "deployment", f.cfg.Pool}
	g := func(name, help string, v int) { p.Gauge(name, help, float64(v), l...) }
	g("kube_deployment_metadata_generation", "Sequence number representing a specific generation of the desired state.", int(d.generation))
	g("kube_deployment_status_observed_generation", "The generation observed by the deployment controller.", int(d.generation))
	g("kube_deployment_spec_replicas", "Number of desired pods for a deployment.", d.replicas)
	g("kube_deployment_status_replicas", "The number of replicas per deployment.", all)
	g("kube_deployment_status_replicas_ready", "The number of ready replicas per deployment.", ready)
	g("kube_deployment_status_replicas_updated", "The number of updated replicas per deployment.", updated)
	g("kube_deployment_status_replicas_available", "The number of available replicas per deployment.", ready)
	g("kube_deployment_status_replicas_unavailable", "The number of unavailable replicas per deployment.", max(0, all-ready))
	for _, s := range d.sets {
		rs := []string{"namespace", f.cfg.Namespace, "replicaset", f.cfg.Pool + "-" + s.hash}
		p.Gauge("kube_replicaset_created", "Unix creation timestamp", float64(f.at(s.created).Unix()), rs...)
		p.Gauge("kube_replicaset_owner", "Information about the ReplicaSet's owner.", 1,
			append(append([]string{}, rs...), "owner_kind", "Deployment", "owner_name", f.cfg.Pool, "owner_is_controller", "true")...)
		p.Gauge("kube_replicaset_spec_replicas", "Number of desired pods for a ReplicaSet.", float64(perSet[s.hash]), rs...)
		p.Gauge("kube_replicaset_annotations", "Kubernetes annotations converted to Prometheus labels.", 1,
			append(append([]string{}, rs...), "annotation_deployment_kubernetes_io_revision", strconv.Itoa(s.revision))...)
	}
}
