package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/internal/text"
)

// controllers lists the managers that write objects by themselves. Their entries are not edits by a
// person.
var controllers = []string{"kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", FieldManager}

// HumanEdit returns a manager that edited or scaled the workload after a time and is a person's
// tool. It ignores controllers, GitOps tools, Helm, and the creation of the workload.
func (w Workload) HumanEdit(since time.Time) (Manager, bool) {
	for _, m := range w.Managers {
		if m.Status || !m.At.After(since) || slices.Contains(controllers, m.Name) || gitOps(m.Name) ||
			m.Name == "helm" {
			continue
		}
		if m.At.Sub(w.Created).Abs() <= time.Second {
			continue // the creation itself
		}
		return m, true
	}
	return Manager{}, false
}

// gitOps reports whether a manager applies manifests continuously from elsewhere.
func gitOps(manager string) bool {
	for _, known := range []string{"argocd", "kustomize-controller", "helm-controller", "flux", "fleetagent", "keda"} {
		if strings.HasPrefix(strings.ToLower(manager), known) {
			return true
		}
	}
	return false
}

// Declared names the tool that declares the pod template from elsewhere, or returns "". It goes by
// the managers and by the labels and annotations that such tools leave.
func (w Workload) Declared() string {
	template := func(path string) bool { return strings.HasPrefix(path, "spec.template") }
	for _, m := range w.Managers {
		if gitOps(m.Name) && (len(m.Owns) == 0 || slices.ContainsFunc(m.Owns, template)) {
			return fmt.Sprintf("%s sets the pod template of %s", m.Name, w.Name)
		}
	}
	marks := []struct{ key, tool string }{
		{"argocd.argoproj.io/tracking-id", "Argo CD"}, {"argocd.argoproj.io/instance", "Argo CD"},
		{"kustomize.toolkit.fluxcd.io/name", "Flux"}, {"helm.toolkit.fluxcd.io/name", "Flux"},
	}
	for _, m := range marks {
		for _, set := range []map[string]string{w.Labels, w.Annotations} {
			if v, ok := set[m.key]; ok {
				return fmt.Sprintf("%s (%s) manages %s", m.tool, text.Line(v, 60), w.Name)
			}
		}
	}
	return ""
}

// HelmRelease names the Helm release that the workload belongs to, or returns "". Helm alone
// changes nothing between upgrades, so a person may still decide. Tools that apply releases
// continuously are found by Declared.
func (w Workload) HelmRelease() string {
	if v, ok := w.Annotations["meta.helm.sh/release-name"]; ok {
		return fmt.Sprintf("Helm release %s manages %s", text.Line(v, 60), w.Name)
	}
	helm := func(m Manager) bool { return m.Name == "helm" }
	if w.Labels["app.kubernetes.io/managed-by"] == "Helm" || slices.ContainsFunc(w.Managers, helm) {
		return "a Helm release manages " + w.Name
	}
	return ""
}
