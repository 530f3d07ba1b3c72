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

// placed is what Ray says of a pod.
type placed struct {
	models serveApp // that its engines may serve
	group  string   // of the pods that share engines; empty for one that shares none
}

// heads are the dashboards of the RayClusters that have to be asked what runs where, by address,
// empty where a head has none: those of RayServices with several GPU pods, unless each engine is
// known to take one GPU and to serve the same as every other.
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
		if app := b.serveApps[b.owners[cluster]]; n > 1 && len(app) > 0 && app.alone() != 1 && !b.oneEngine[cluster] {
			out[cluster] = dashboards[cluster]
		}
	}
	return out
}

func rayClusterOf(p *corev1.Pod) object {
	return object{p.Namespace, "RayCluster", p.Labels[rayCluster]}
}

// dashboardPort is the port that KubeRay names so, or its and Ray's default.
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

// place puts the engines that Ray told of on their pods, and notes whose pods cannot be told. Pods
// of one engine are one group, and so are those that two engines tie together by sharing one
// between them: what befalls it befalls both.
func (b *builder) place(answers map[object]rayAnswer) []state.Missing {
	pods := b.addressed(answers)
	var notes []state.Missing
	for cluster, a := range answers {
		app := b.serveApps[b.owners[cluster]]
		strange := map[netip.Addr]bool{}
		for _, e := range a.engines {
			var on []string
			for _, host := range e.Hosts {
				if pod := pods[cluster][host]; pod != "" {
					on = append(on, pod)
				} else {
					strange[host] = true
				}
			}
			b.tie(on, e.ID, len(e.Hosts) > 1 || e.Lost)
			for _, pod := range on {
				at := b.placed[pod]
				at.models = append(at.models, app.of(e.Deployment)...)
				b.placed[pod] = at
			}
		}
		if len(strange) > 0 && a.err == nil { // what was said long ago is noted already
			notes = append(notes, state.Missing{Signal: "topology", Reason: fmt.Sprintf("Ray of %s/%s runs engines at addresses that none of its pods has, or several have (%d); "+
				"which of its pods run one engine is not known of these", cluster.namespace, cluster.name, len(strange))})
		}
	}
	slices.SortFunc(notes, func(a, b state.Missing) int { return cmp.Compare(a.Reason, b.Reason) })
	return notes
}

// addressed are the pods by their addresses, of which Ray uses one; none where several on the
// network of one node share it. A pod that is younger than the answer has none of its engines,
// although it may have the address of one that had.
func (b *builder) addressed(answers map[object]rayAnswer) map[object]map[netip.Addr]string {
	out := map[object]map[netip.Addr]string{}
	for i := range b.snap.pods {
		p := &b.snap.pods[i]
		cluster, name := rayClusterOf(p), p.Namespace+"/"+p.Name
		a, told := answers[cluster]
		if !told || p.CreationTimestamp.After(a.at) || p.Status.Phase != corev1.PodRunning {
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

// tie makes the pods one group with all whose groups they are in already. A pod that has an engine
// for itself is in none.
func (b *builder) tie(pods []string, id string, spans bool) {
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
		b.placed[pod] = placed{b.placed[pod].models, id}
	}
	for pod, at := range b.placed {
		if old[at.group] {
			b.placed[pod] = placed{at.models, id}
		}
	}
}
