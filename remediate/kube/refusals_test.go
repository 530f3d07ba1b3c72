package kube_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"paramedic/remediate/cluster"
	"paramedic/remediate/kube"
)

// Each read may be forbidden. None of them then returns a part.
func TestForbiddenReadFailsAsAWhole(t *testing.T) {
	ctx := context.Background()
	w := cluster.Workload{Ref: ref, UID: "u1", Selector: map[string]string{"app": "vllm"}}
	reads := map[string]struct {
		read  func(*kube.Cluster) error
		paths []string
	}{
		"deployment": {func(c *kube.Cluster) error { _, err := c.Workload(ctx, ref); return err }, []string{"/deployments/"}},
		"stateful set": {func(c *kube.Cluster) error {
			_, err := c.Workload(ctx, cluster.Ref{Namespace: "llm", Kind: "StatefulSet", Name: "x"})
			return err
		}, []string{"/statefulsets/"}},
		"pod":       {func(c *kube.Cluster) error { _, err := c.Pod(ctx, "llm", "p"); return err }, []string{"/pods/"}},
		"pods":      {func(c *kube.Cluster) error { _, err := c.Pods(ctx, w); return err }, []string{"/replicasets", "/pods"}},
		"namespace": {func(c *kube.Cluster) error { _, err := c.Namespace(ctx, "llm"); return err }, []string{"/namespaces/llm", "/services", "/poddisruptionbudgets", "/horizontalpodautoscalers"}},
	}
	for name, c := range reads {
		for _, forbidden := range append(c.paths, "") {
			k, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
				if forbidden != "" && (strings.HasSuffix(r.URL.Path, forbidden) ||
					strings.HasSuffix(forbidden, "/") && strings.Contains(r.URL.Path, forbidden)) {
					answer(w, 403, status(403, "Forbidden", "no", ""))
					return
				}
				answer(w, 200, `{}`)
			})
			if err := c.read(k); errors.Is(err, cluster.ErrForbidden) != (forbidden != "") || (err != nil) != (forbidden != "") {
				t.Errorf("%s, where %q is forbidden: %v", name, forbidden, err)
			}
		}
	}
}

func TestOddRequestsNeverReachTheServer(t *testing.T) {
	c, _ := server(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) })
	ctx := context.Background()
	set := cluster.Ref{Namespace: "llm", Kind: "StatefulSet", Name: "x"}
	_, patched := c.PatchWorkload(ctx, set, []byte(`[]`), false)
	_, unknown := c.Workload(ctx, cluster.Ref{Namespace: "llm", Kind: "Node", Name: "x"})
	_, unnamed := c.Pod(ctx, "llm", "")
	if unnamed == nil || unnamed.Error() != "a pod needs a name" {
		t.Errorf("a pod without a name: %v", unnamed)
	}
	_, unselected := c.Pods(ctx, cluster.Workload{Ref: set})
	for name, err := range map[string]error{"a patch of a StatefulSet": patched, "an unknown kind": unknown, "pods of no label": unselected,
		"an eviction by name": c.Evict(ctx, "llm", "p", "", true)} {
		if !errors.Is(err, cluster.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process that lost the lease may be in the middle of a run. It writes nothing more.
func TestWriteThatMayNotBeMadeIsNotSent(t *testing.T) {
	replaced := errors.New("replaced")
	sent := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent++
		answer(w, 200, deployment)
	}))
	defer srv.Close()
	c, err := kube.New(&rest.Config{Host: srv.URL}, kube.Options{MayWrite: func(context.Context) error { return replaced }})
	if err != nil {
		t.Fatal(err)
	}
	_, patched := c.PatchWorkload(t.Context(), ref, []byte(`[{"op":"test","path":"/metadata/uid","value":"u1"}]`), false)
	evicted := c.Evict(t.Context(), "llm", "vllm-1", "u1", false)
	if !errors.Is(patched, replaced) || !errors.Is(evicted, replaced) || sent > 0 {
		t.Errorf("%d requests; the patch: %v; the eviction: %v", sent, patched, evicted)
	}
}

// First aid sees the objects that the server returns, of each kind.
func TestAnswersAreRead(t *testing.T) {
	ctx := context.Background()
	object := func(kind string) string {
		return `{"kind":"` + kind + `","metadata":{"name":"x","namespace":"llm","uid":"u7"},"spec":{"replicas":2}}`
	}
	c, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/deployments/"):
			answer(w, 200, object("Deployment"))
		case strings.Contains(r.URL.Path, "/statefulsets/"):
			answer(w, 200, object("StatefulSet"))
		default:
			answer(w, 200, object("Pod"))
		}
	})
	set, err1 := c.Workload(ctx, cluster.Ref{Namespace: "llm", Kind: "StatefulSet", Name: "x"})
	pod, err2 := c.Pod(ctx, "llm", "x")
	patched, err3 := c.PatchWorkload(ctx, ref, []byte(`[]`), false)
	labelled, err4 := c.PatchPod(ctx, "llm", "x", []byte(`[]`), false)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	if set.UID != "u7" || set.Kind != "StatefulSet" || set.Replicas != 2 || pod.UID != "u7" || patched.UID != "u7" ||
		patched.Kind != "Deployment" || labelled.UID != "u7" {
		t.Errorf("%+v %+v %+v %+v", set, pod, patched, labelled)
	}
}

// Pods that ended, and pods without a controller, are not workers. A StatefulSet's pods are its
// own.
func TestOnlyLivingOwnPodsAreWorkers(t *testing.T) {
	pod := func(name, phase, owner string) string {
		refs := ""
		if owner != "" {
			refs = `,"ownerReferences":[{"kind":"X","name":"x","uid":"` + owner + `","controller":true}]`
		}
		return `{"metadata":{"name":"` + name + `"` + refs + `},"status":{"phase":"` + phase + `"}}`
	}
	c, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/replicasets") {
			answer(w, 200, `{"items":[{"metadata":{"name":"none","uid":"r0"}},{"metadata":{"name":"own","uid":"r1","ownerReferences":[{"kind":"Deployment","name":"x","uid":"u1","controller":true}]}}]}`)
			return
		}
		answer(w, 200, `{"items":[`+strings.Join([]string{pod("direct", "Running", "u1"), pod("own", "Running", "r1"), pod("pending", "Pending", "r1"),
			pod("none", "Running", ""), pod("other", "Running", "r0"), pod("failed", "Failed", "r1"), pod("done", "Succeeded", "r1")}, ",")+`]}`)
	})
	for kind, want := range map[string]string{"Deployment": "direct own pending", "StatefulSet": "direct"} {
		pods, err := c.Pods(context.Background(),
			cluster.Workload{Ref: cluster.Ref{Namespace: "llm", Kind: kind, Name: "x"}, UID: "u1", Selector: map[string]string{"app": "x"}})
		var names []string
		for _, p := range pods {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: %q %v", kind, got, err)
		}
	}
}

// A dry run is marked in the request, and only there.
func TestDryRunIsAskedForOnlyThen(t *testing.T) {
	var query, body string
	c, log := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		query, body = r.URL.Query().Get("dryRun"), string(b)
		answer(w, 200, `{}`)
	})
	ctx := context.Background()
	for _, dry := range []bool{true, false} {
		want := map[bool]string{true: "All"}[dry]
		for name, write := range map[string]func() error{
			"workload": func() error { _, err := c.PatchWorkload(ctx, ref, []byte(`[]`), dry); return err },
			"pod":      func() error { _, err := c.PatchPod(ctx, "llm", "p", []byte(`[]`), dry); return err },
			"eviction": func() error { return c.Evict(ctx, "llm", "p", "u", dry) },
		} {
			if err := write(); err != nil || query != want || name == "eviction" && strings.Contains(body, `"dryRun":["All"]`) != dry {
				t.Errorf("%s, dry %t: dryRun=%q %s %v", name, dry, query, body, err)
			}
		}
	}
	// The audit names the op-id that a patch sets, and not one that it only tests or removes.
	for patch, op := range map[string]string{
		`[{"op":"test","path":"/metadata/annotations/paramedic.dev~1op-id","value":"old"},{"op":"replace","path":"/metadata/annotations/paramedic.dev~1op-id","value":"new"}]`: "op=new",
		`[{"op":"add","path":"/metadata/annotations/paramedic.dev~1op-id","value":"new"},{"op":"test","path":"/metadata/annotations/paramedic.dev~1op-id","value":"old"}]`:     "op=new",
		`[{"op":"replace","path":"/metadata/labels/serving","value":"x"}]`:                                                                                                     `op=""`,
		`[{"op":"add","path":"/metadata/annotations","value":{"paramedic.dev/op-id":"all"}}]`:                                                                                  "op=all",
		`[{"op":"add","path":"/metadata/annotations","value":{"other":"x"}}]`:                                                                                                  `op=""`,
		`[{"op":"add","path":"/metadata/annotations/paramedic.dev~1op-id","value":"x"},{"op":"add","path":"/metadata/annotations","value":{"other":"x"}}]`:                     "op=x",
		`{`: `op=""`,
	} {
		log.Reset()
		if _, err := c.PatchPod(ctx, "llm", "p", []byte(patch), false); err != nil || !strings.Contains(log.String(), op+" ") {
			t.Errorf("%s: %s %v", patch, log, err)
		}
	}
}

// Only an answer of the server that names the reason proves that nothing was written.
func TestRefusalsAreToldApart(t *testing.T) {
	all := []error{cluster.ErrNotFound, cluster.ErrConflict, cluster.ErrBlocked, cluster.ErrForbidden, cluster.ErrRefused}
	for _, c := range []struct {
		name string
		code int
		body string
		want error
	}{
		{"bad request", 400, status(400, "BadRequest", "bad", ""), cluster.ErrRefused},
		{"bad method", 405, status(405, "MethodNotAllowed", "no", ""), cluster.ErrRefused},
		{"too large", 413, status(413, "RequestEntityTooLarge", "big", ""), cluster.ErrRefused},
		{"bad media", 415, status(415, "UnsupportedMediaType", "no", ""), cluster.ErrRefused},
		{"a test of a patch with a cause and no field", 422, status(422, "Invalid", "bad", `{"causes":[{"message":"x"}]}`), cluster.ErrConflict},
		{"a budget by its words", 429, status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", ""), cluster.ErrBlocked},
		{"a test of a patch without details", 422, status(422, "Invalid", "bad", ""), cluster.ErrConflict},
		{"a budget by its cause", 429, status(429, "TooManyRequests", "no", `{"causes":[{"reason":"DisruptionBudget"}]}`), cluster.ErrBlocked},
		{"a budget whose cause names a field", 429, status(429, "TooManyRequests", "no", `{"causes":[{"reason":"DisruptionBudget","message":"2 of 2 needed","field":"x"}]}`), cluster.ErrBlocked},
		{"a budget in other words", 503, status(503, "ServiceUnavailable", "the disruption budget controller is away", ""), nil},
		{"a timeout", 504, status(504, "Timeout", "late", ""), nil},
		{"broken", 500, status(500, "InternalError", "etcd", ""), nil},
	} {
		k, log := server(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, c.code, c.body) })
		_, err := k.PatchPod(context.Background(), "llm", "p", []byte(`[]`), false)
		_, err2 := k.PatchWorkload(context.Background(), ref, []byte(`[]`), false)
		for _, err := range []error{err, err2} {
			for _, s := range all {
				wanted := c.want != nil && errors.Is(s, c.want)
				if err == nil || errors.Is(err, s) != wanted {
					t.Errorf("%s: %v is %v: %t", c.name, err, s, errors.Is(err, s))
				}
			}
		}
		if !strings.Contains(log.String(), "status=") {
			t.Errorf("%s: not in the audit: %s", c.name, log)
		}
	}
	quiet, err := kube.New(&rest.Config{Host: "http://127.0.0.1:1"}, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := quiet.PatchPod(context.Background(), "llm", "p", []byte(`[]`), false); err == nil || errors.Is(err, cluster.ErrRefused) {
		t.Errorf("without an audit: %v", err)
	}
	// A broken connection proves nothing, and is in the audit.
	k, log := server(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err = k.PatchPod(context.Background(), "llm", "p", []byte(`[]`), false)
	for _, s := range all {
		if err == nil || errors.Is(err, s) {
			t.Errorf("a broken connection is %v: %v", s, err)
		}
	}
	if !strings.Contains(log.String(), "err=") {
		t.Errorf("a broken connection is not in the audit: %s", log)
	}
}

func TestConnectSaysWhatIsMissing(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := kube.Connect("", "", kube.Options{}); err == nil || !strings.Contains(err.Error(), "does not run in a pod") {
		t.Errorf("%v", err)
	}
	dir := t.TempDir()
	if _, err := kube.Connect(filepath.Join(dir, "none"), "", kube.Options{}); err == nil ||
		!strings.Contains(err.Error(), "reading kubeconfig") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(dir, "config")
	config := `{"apiVersion":"v1","kind":"Config","current-context":"a","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
 "contexts":[{"name":"a","context":{"cluster":"c"}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.Connect(file, "", kube.Options{}); err != nil {
		t.Error(err)
	}
	if _, err := kube.New(&rest.Config{Host: "http://127.0.0.1:1",
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "none")}}, kube.Options{}); err == nil {
		t.Error("a certificate that is not there was taken")
	}
	if _, err := kube.Connect(file, "b", kube.Options{}); err == nil {
		t.Error("an unknown context was taken")
	}
	t.Setenv("KUBECONFIG", file)
	if _, err := kube.Connect("", "a", kube.Options{}); err != nil {
		t.Error(err)
	}
}

// A hold by a disruption budget gives the reason from the cause, or else from the message.
func TestBlockedEvictionSaysWhy(t *testing.T) {
	for details, want := range map[string]string{
		`{"causes":[{"reason":"DisruptionBudget","message":"2 of 2 needed"}]}`: "2 of 2 needed",
		`{"causes":[{"reason":"DisruptionBudget"}]}`:                           "Cannot evict pod",
	} {
		c, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 429, status(429, "TooManyRequests", "Cannot evict pod", details))
		})
		if err := c.Evict(context.Background(), "llm", "p", "u", false); !errors.Is(err, cluster.ErrBlocked) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
