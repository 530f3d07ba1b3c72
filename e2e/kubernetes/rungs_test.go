package kubernetes

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authz "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"paramedic/e2e/bot"
)

// rungFiles maps each rung to whether it may write.
var rungFiles = map[string]bool{"observe": false, "suggest": false, "approve": true, "auto": true}

// TestRungsAreAppliedWithExactRights applies each manifest as kubectl does, under names of its own.
// Then it asks the API server what each account may do.
func TestRungsAreAppliedWithExactRights(t *testing.T) {
	for rung, writes := range rungFiles {
		t.Run(rung, func(t *testing.T) {
			t.Parallel()
			home, fleet := "rung-"+rung, "rung-"+rung+"-llm"
			applyRung(t, rung, home, fleet)
			reader := "system:serviceaccount:" + home + ":paramedic"
			aid := "system:serviceaccount:" + home + ":" + rung + "-first-aid"
			wantReader, wantAid := map[string]bool{}, map[string]bool{}
			if writes {
				wantReader["impersonate serviceaccounts/"+rung+"-first-aid in "+home] = true
				for _, what := range []string{"patch deployments.apps", "patch pods", "create pods/eviction"} {
					wantAid[what+" in "+fleet] = true
				}
			}
			for user, want := range map[string]map[string]bool{reader: wantReader, aid: wantAid} {
				if got := mayWrite(t, user, rung, home, fleet); !maps.Equal(got, want) {
					t.Errorf("%s may %v, want %v", user, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
				}
			}
			if !allowed(t, reader, authz.ResourceAttributes{Verb: "list", Resource: "pods"}) {
				t.Error("the bot cannot read pods")
			}
		})
	}
}

// applyRung applies a manifest in a namespace home, with its rights to write in the namespace
// fleet. Strict validation refuses unknown fields. The bot's pod is validated and not created.
func applyRung(t *testing.T, rung, home, fleet string) {
	t.Helper()
	must(admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet}},
		metav1.CreateOptions{}))(t)
	for _, o := range must(manifest(rung + ".yaml"))(t) {
		raw := string(must(o.MarshalJSON())(t))
		raw = strings.ReplaceAll(raw, `"namespace":"paramedic"`, `"namespace":"`+home+`"`)
		raw = strings.ReplaceAll(raw, `"namespace":"llm"`, `"namespace":"`+fleet+`"`)
		raw = strings.ReplaceAll(raw, `"paramedic-first-aid"`, `"`+rung+`-first-aid"`)
		raw = strings.ReplaceAll(raw, `"paramedic-observer"`, `"`+rung+`-observer"`)
		own := &unstructured.Unstructured{}
		if err := own.UnmarshalJSON([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		options := metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict}
		switch own.GetKind() {
		case "Namespace":
			own.SetName(home)
		case "StatefulSet":
			options.DryRun = []string{metav1.DryRunAll}
		}
		if err := patch(t.Context(), own, options); err != nil {
			t.Fatal(err)
		}
	}
}

// mayWrite returns the verbs beyond reading that a user has on the resources that matter, in both
// namespaces and in kube-system.
func mayWrite(t *testing.T, user, rung, home, fleet string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, ns := range []string{home, fleet, "kube-system", ""} {
		ask := func(verb, group, resource, sub, name string) {
			if allowed(t, user, authz.ResourceAttributes{Namespace: ns, Verb: verb, Group: group, Resource: resource, Subresource: sub,
				Name: name}) {
				out[strings.TrimSuffix(fmt.Sprintf("%s %s.%s", verb, resource, group), ".")+slashed(sub)+slashed(name)+" in "+ns] = true
			}
		}
		for _, r := range []string{"pods", "services", "configmaps", "secrets", "serviceaccounts", "nodes", "namespaces", "events"} {
			for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
				ask(verb, "", r, "", "")
			}
		}
		for _, r := range []string{"deployments", "statefulsets", "replicasets"} {
			for _, verb := range []string{"create", "update", "patch", "delete"} {
				ask(verb, "apps", r, "", "")
			}
		}
		for _, sub := range []string{"eviction", "exec", "attach", "portforward"} {
			ask("create", "", "pods", sub, "")
		}
		ask("create", "", "serviceaccounts", "token", "")
		ask("impersonate", "", "users", "", "")
		ask("impersonate", "", "serviceaccounts", "", rung+"-first-aid")
		ask("impersonate", "", "serviceaccounts", "", "default")
		ask("get", "", "secrets", "", "")
		ask("list", "", "secrets", "", "")
		ask("escalate", "rbac.authorization.k8s.io", "clusterroles", "", "")
	}
	return out
}

func slashed(s string) string {
	if s == "" {
		return ""
	}
	return "/" + s
}

// allowed reports whether the API server lets a user do something.
func allowed(t *testing.T, user string, what authz.ResourceAttributes) bool {
	t.Helper()
	review := &authz.SubjectAccessReview{Spec: authz.SubjectAccessReviewSpec{User: user, ResourceAttributes: &what,
		Groups: []string{"system:authenticated", "system:serviceaccounts"}}}
	return must(admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}))(t).Status.Allowed
}

// TestBotRunsWithTheRenderedConfig starts the real bot with the configuration of each rung, with
// files and addresses of the test in place of those of a pod.
func TestBotRunsWithTheRenderedConfig(t *testing.T) {
	for rung := range rungFiles {
		t.Run(rung, func(t *testing.T) {
			t.Parallel()
			b := bot.New(t)
			b.Secret("alertmanager-token", "intake")
			b.Secret("tokens.yaml", "- {token: api-token, name: ada, role: viewer}")
			var text string
			for _, o := range must(manifest(rung + ".yaml"))(t) {
				if o.GetKind() == "ConfigMap" {
					text, _, _ = unstructured.NestedString(o.Object, "data", "paramedic.yaml")
				}
			}
			kc := kubeconfig(t, b.Dir(), control.Config.Host)
			text = strings.NewReplacer("/etc/paramedic/secrets", b.Dir(), "/var/lib/paramedic/state", filepath.Join(b.Dir(), "data"),
				"0.0.0.0:8080", strings.TrimPrefix(b.URL(), "http://"), "http://prometheus-operated.monitoring:9090", monitoring.url,
				"kubernetes: {}", "kubernetes: {kubeconfig: "+kc+"}", "kubernetes:\n", "kubernetes:\n    kubeconfig: "+kc+"\n").Replace(text)
			b.ConfigureRaw([]byte(text))
			b.Start()
			b.Token = "api-token"
			if list, err := b.Incidents(); err != nil || len(list) != 0 {
				t.Errorf("%d incidents, %v", len(list), err)
			}
		})
	}
}
