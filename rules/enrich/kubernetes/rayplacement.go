package kubernetes

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"paramedic/state"
)

// A rayPlacement holds what Ray reports of a pod.
type rayPlacement struct {
	models serveApp // that its engines may serve
	group  string   // of the pods that share engines; empty if the pod shares none
}

// heads returns the dashboards of the RayClusters that have to be asked for their placement, by
// cluster. The address is empty if a cluster has no head. These are the clusters of RayServices
// with several GPU pods. A cluster is left out if all its engines serve one model and take one GPU
// each, or if it is a single engine.
func (b *builder) heads() map[object]string {
	gpuPods, dashboards := map[object]int{}, map[object]string{}
	for i := range b.snap.pods {
		p := &b.snap.pods[i]
		cluster := rayClusterOf(p)
		if cluster.name == "" || p.Status.Phase != corev1.PodRunning {
			continue
		}
		if hasGPU(p) {
			gpuPods[cluster]++
		}
		if p.Labels[rayNode] == "head" && p.Status.PodIP != "" && p.DeletionTimestamp == nil {
			dashboards[cluster] = "http://" + net.JoinHostPort(p.Status.PodIP, dashboardPort(p))
		}
	}
	out := map[object]string{}
	for cluster, n := range gpuPods {
		if app := b.serveApps[b.owners[cluster]]; n > 1 && len(app) > 0 && app.gpusPerEngine() != 1 &&
			!b.singleEngine[cluster] {
			out[cluster] = dashboards[cluster]
		}
	}
	return out
}

func rayClusterOf(p *corev1.Pod) object {
	return object{p.Namespace, "RayCluster", p.Labels[rayCluster]}
}

// dashboardPort returns the port that KubeRay names "dashboard", or the default of KubeRay and Ray.
func dashboardPort(head *corev1.Pod) string {
	for _, c := range head.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "dashboard" {
				return fmt.Sprint(p.ContainerPort)
			}
		}
	}
	return "8265"
}

// place assigns the engines that Ray reported to their pods, and returns notes for engines whose
// pods are unknown. Pods of one engine form a group. Two engines that share a pod join their
// groups, because a fault of that pod affects both.
func (b *builder) place(answers map[object]rayAnswer) []state.Missing {
	pods := b.addressed(answers)
	var notes []state.Missing
	for cluster, a := range answers {
		app := b.serveApps[b.owners[cluster]]
		unknown := map[netip.Addr]bool{}
		for _, e := range a.engines {
			var on []string
			for _, host := range e.Hosts {
				if pod := pods[cluster][host]; pod != "" {
					on = append(on, pod)
				} else {
					unknown[host] = true
				}
			}
			b.join(on, e.ID, len(e.Hosts) > 1 || e.Lost)
			for _, pod := range on {
				at := b.placed[pod]
				at.models = append(at.models, app.of(e.Deployment)...)
				b.placed[pod] = at
			}
		}
		if len(unknown) > 0 && a.err == nil { // an old answer has a note already
			notes = append(notes, state.Missing{Signal: "topology",
				Reason: fmt.Sprintf("Ray of %s/%s runs engines at %d addresses that no pod has, or several pods have; "+
					"the bot cannot group these pods",
					cluster.namespace, cluster.name, len(unknown))})
		}
	}
	slices.SortFunc(notes, func(a, b state.Missing) int { return cmp.Compare(a.Reason, b.Reason) })
	return notes
}

// addressed returns the pods by address, because Ray uses one of a pod's addresses. An address that
// several pods share is empty. A pod that is younger than the answer has none of its engines, even
// if it has the address of a deleted pod.
func (b *builder) addressed(answers map[object]rayAnswer) map[object]map[netip.Addr]string {
	out := map[object]map[netip.Addr]string{}
	for i := range b.snap.pods {
		p := &b.snap.pods[i]
		cluster, name := rayClusterOf(p), p.Namespace+"/"+p.Name
		a, asked := answers[cluster]
		if !asked || p.CreationTimestamp.After(a.at) || p.Status.Phase != corev1.PodRunning {
			continue
		}
		if out[cluster] == nil {
			out[cluster] = map[netip.Addr]string{}
		}
		for _, of := range append([]corev1.PodIP{{IP: p.Status.PodIP}}, p.Status.PodIPs...) {
			ip, err := netip.ParseAddr(of.IP)
			if err != nil {
				continue
			}
			if other, twice := out[cluster][ip.Unmap()]; twice && other != name {
				out[cluster][ip.Unmap()] = ""
				continue
			}
			out[cluster][ip.Unmap()] = name
		}
	}
	return out
}

// join makes the pods one group, with all pods of the groups that they are in already. A pod with
// an engine of its own is in no group.
func (b *builder) join(pods []string, id string, spans bool) {
	old := map[string]bool{}
	for _, pod := range pods {
		at, known := b.placed[pod]
		if known && at.group != "" {
			old[at.group] = true
			id = min(id, at.group)
		}
	}
	if !spans && len(old) == 0 {
		id = ""
	}
	for _, pod := range pods {
		b.placed[pod] = rayPlacement{b.placed[pod].models, id}
	}
	for pod, at := range b.placed {
		if old[at.group] {
			b.placed[pod] = rayPlacement{at.models, id}
		}
	}
}
