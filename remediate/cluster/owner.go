package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/internal/text"
)

// controllers write objects by themselves; their entries are no person's edit.
var controllers = []string{"kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", FieldManager}

func (w Workload) HumanEdit(since time.Time) (Manager, bool) {
	for _, m := range w.Managers {
		if m.Status || !m.At.After(since) || slices.Contains(controllers, m.Name) || gitOps(m.Name) || m.Name == "helm" {
			continue
		}
		if m.At.Sub(w.Created).Abs() <= time.Second {
			continue // the creation itself
		}
		return m, true
	}
	return Manager{}, false
}

func gitOps(manager string) bool {
	for _, known := range []string{"argocd", "kustomize-controller", "helm-controller", "flux", "fleetagent", "keda"} {
		if strings.HasPrefix(strings.ToLower(manager), known) {
			return true
		}
	}
	return false
}

// declarative says what declares the pod template from elsewhere, by who wrote it and by the marks
// that such tools leave.
func (w Workload) Declared() string {
	for _, m := range w.Managers {
		if gitOps(m.Name) && (len(m.Owns) == 0 || slices.ContainsFunc(m.Owns, func(p string) bool { return strings.HasPrefix(p, "spec.template") })) {
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

// helmRelease names the Helm release that the workload belongs to. Helm by itself changes nothing
// between upgrades, so that a person may still decide; what applies releases continuously is found
// by declarative.
func (w Workload) HelmRelease() string {
	if v, ok := w.Annotations["meta.helm.sh/release-name"]; ok {
		return fmt.Sprintf("Helm release %s manages %s", text.Line(v, 60), w.Name)
	}
	if w.Labels["app.kubernetes.io/managed-by"] == "Helm" || slices.ContainsFunc(w.Managers, func(m Manager) bool { return m.Name == "helm" }) {
		return "a Helm release manages " + w.Name
	}
	return ""
}
