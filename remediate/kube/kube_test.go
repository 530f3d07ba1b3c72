package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"paramedic/internal/incidentlog"
	"paramedic/remediate/cluster"
	"paramedic/remediate/kube"
)

// server answers like an API server, with the objects of the test.
func server(t *testing.T, h http.HandlerFunc) (*kube.Cluster, *bytes.Buffer) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	log := &bytes.Buffer{}
	c, err := kube.New(&rest.Config{Host: srv.URL, BearerToken: "s3cret"}, kube.Options{
		Logger: slog.New(incidentlog.Handler{Handler: slog.NewTextHandler(log, nil)})})
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

func answer(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func status(code int, reason, message, details string) string {
	b, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
		"message": message})
	if details == "" {
		return string(b)
	}
	return strings.TrimSuffix(string(b), "}") + `,"details":` + details + "}"
}

const deployment = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"vllm","namespace":"llm","uid":"u1","generation":3,
 "creationTimestamp":"2026-03-02T00:00:00Z","annotations":{"paramedic.dev/op-id":"op1"},
 "managedFields":[{"manager":"argocd-controller","operation":"Apply","time":"2026-03-02T01:00:00Z","fieldsV1":{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"vllm\"}":{".":{},"f:args":{}}}}}}}},
  {"manager":"kube-controller-manager","subresource":"status","fieldsV1":{"f:status":{}}}]},
 "spec":{"replicas":4,"selector":{"matchLabels":{"app":"vllm"}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":0}},
  "template":{"spec":{"containers":[{"name":"vllm","image":"i","args":["--max-num-seqs=256"]}]}}},
 "status":{"observedGeneration":3,"replicas":4,"updatedReplicas":4,"readyReplicas":3,"availableReplicas":3}}`

var ref = cluster.Ref{Namespace: "llm", Kind: "Deployment", Name: "vllm"}

func TestDeploymentAsFirstAidSeesIt(t *testing.T) {
	c, log := server(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, deployment) })
	got, err := c.Workload(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != "u1" || got.Generation != 3 || got.RollingOut() || got.Ready != 3 || got.MaxUnavailable != 1 || got.MaxSurge != 0 ||
		got.Containers[0].Args[0] != "--max-num-seqs=256" {
		t.Errorf("%+v", got)
	}
	if m := got.Managers; len(m) != 2 || m[0].Owns[0] != "spec.template.spec.containers[vllm].args" || !m[1].Status || m[0].At.Hour() != 1 {
		t.Errorf("%+v", m)
	}
	if log.Len() > 0 {
		t.Errorf("a read was logged as a write: %s", log)
	}
}

func TestFirstAidActsAsItsOwnAccount(t *testing.T) {
	for account, want := range map[string]string{"": "", "paramedic/paramedic-first-aid": "system:serviceaccount:paramedic:paramedic-first-aid"} {
		var got []string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Header.Get("Impersonate-User"))
			answer(w, 200, deployment)
		}))
		t.Cleanup(srv.Close)
		c, err := kube.New(&rest.Config{Host: srv.URL}, kube.Options{Account: account})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Workload(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if _, err := c.PatchWorkload(t.Context(), ref, []byte(`[]`), false); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("with the account %q, requests are made as %q", account, got)
		}
	}
}

func TestPatchIsSentOnceAndAudited(t *testing.T) {
	calls := 0
	c, log := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		if r.Method != http.MethodPatch || r.Header.Get("Content-Type") != "application/json-patch+json" ||
			r.URL.Query().Get("fieldManager") != "paramedic" || r.URL.Query().Get("dryRun") != "All" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		answer(w, 200, deployment)
	})
	patch := `[{"op":"test","path":"/metadata/uid","value":"u1"},{"op":"add","path":"/metadata/annotations/paramedic.dev~1op-id","value":"op7"}]`
	if _, err := c.PatchWorkload(incidentlog.With(context.Background(), "INC-7"), ref, []byte(patch), true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"verb=PATCH", "path=/apis/apps/v1/namespaces/llm/deployments/vllm", "op=op7", "dry_run=true",
		"status=200", "incident=INC-7"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("audit lacks %s: %s", want, log)
		}
	}
	if strings.Contains(log.String(), "s3cret") || calls != 1 {
		t.Errorf("%d calls; %s", calls, log)
	}
}

func TestEvictionCarriesTheUID(t *testing.T) {
	c, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/api/v1/namespaces/llm/pods/p/eviction" || !bytes.Contains(b, []byte(`"uid":"u9"`)) {
			t.Errorf("%s %s", r.URL.Path, b)
		}
		answer(w, 201, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	})
	if err := c.Evict(context.Background(), "llm", "p", "u9", false); err != nil {
		t.Fatal(err)
	}
	if err := c.Evict(context.Background(), "llm", "p", "", false); !errors.Is(err, cluster.ErrRefused) {
		t.Errorf("evicted by name alone: %v", err)
	}
}

func TestAnswersOfTheServer(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		body string
		want error
	}{
		{"gone", 404, status(404, "NotFound", "no", ""), cluster.ErrNotFound},
		{"uid differs", 409, status(409, "Conflict", "Precondition failed: UID", ""), cluster.ErrConflict},
		{"test failed", 422, status(422, "Invalid", "the server rejected our request due to an error in our request", "{}"), cluster.ErrConflict},
		{"invalid", 422, status(422, "Invalid", "bad", `{"causes":[{"reason":"FieldValueInvalid","field":"spec.replicas","message":"x"}]}`), cluster.ErrRefused},
		{"forbidden", 403, status(403, "Forbidden", "no", ""), cluster.ErrForbidden},
		{"token expired", 401, status(401, "Unauthorized", "no", ""), cluster.ErrForbidden},
		{"budget", 429, status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", `{"causes":[{"reason":"DisruptionBudget","message":"needs 2 healthy pods and has 2 currently"}]}`), cluster.ErrBlocked},
		{"two budgets", 500, status(500, "InternalError", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", ""), cluster.ErrRefused},
		{"overload", 429, status(429, "TooManyRequests", "please try again later", ""), nil},
		{"broken", 503, "upstream is down", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			k, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.Header().Set("Retry-After", "1")
				answer(w, c.code, c.body)
			})
			err := k.Evict(context.Background(), "llm", "p", "u", false)
			if calls != 1 {
				t.Errorf("a write was sent %d times", calls)
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			for _, s := range []error{cluster.ErrNotFound, cluster.ErrConflict, cluster.ErrBlocked, cluster.ErrForbidden,
				cluster.ErrRefused} {
				if !errors.Is(s, c.want) && errors.Is(err, s) {
					t.Errorf("is also %v", s)
				}
			}
			if c.name == "budget" && !strings.Contains(err.Error(), "needs 2 healthy pods") {
				t.Error(err)
			}
		})
	}
}

func TestPodsAreThoseOfTheWorkloadsOwnReplicaSets(t *testing.T) {
	owner := func(uid string) string {
		return `"ownerReferences":[{"kind":"X","name":"x","uid":"` + uid + `","controller":true}]`
	}
	c, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("labelSelector") != "app=vllm" {
			t.Errorf("%s", r.URL)
		}
		if strings.HasSuffix(r.URL.Path, "replicasets") {
			answer(w, 200, `{"kind":"ReplicaSetList","apiVersion":"apps/v1","items":[{"metadata":{"name":"a","uid":"rs1",`+owner("u1")+`}},{"metadata":{"name":"b","uid":"rs2",`+owner("other")+`}}]}`)
			return
		}
		answer(w, 200, `{"kind":"PodList","apiVersion":"v1","items":[
		 {"metadata":{"name":"p1","uid":"1",`+owner("rs1")+`},"status":{"conditions":[{"type":"Ready","status":"True"}]}},
		 {"metadata":{"name":"p2","uid":"2",`+owner("rs2")+`}},{"metadata":{"name":"p3","uid":"3"}}]}`)
	})
	pods, err := c.Pods(context.Background(), cluster.Workload{Ref: ref, UID: "u1", Selector: map[string]string{"app": "vllm"}})
	if err != nil || len(pods) != 1 || pods[0].Name != "p1" || !pods[0].Ready {
		t.Errorf("%+v %v", pods, err)
	}
	if _, err := c.Pods(context.Background(), cluster.Workload{Ref: ref, UID: "u1"}); err == nil {
		t.Error("an empty selector selected something")
	}
}

func TestNamespaceWithAllThatDecides(t *testing.T) {
	c, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] {
		case "llm":
			answer(w, 200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"llm","labels":{"paramedic.dev/managed":"true"}}}`)
		case "services":
			answer(w, 200, `{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"s"},"spec":{"selector":{"app":"vllm"}}}]}`)
		case "poddisruptionbudgets":
			answer(w, 200, `{"kind":"PodDisruptionBudgetList","apiVersion":"policy/v1","items":[{"metadata":{"name":"b","generation":2},"spec":{"selector":{"matchLabels":{"app":"vllm"}}},"status":{"disruptionsAllowed":1,"observedGeneration":1}}]}`)
		default:
			answer(w, 200, `{"kind":"HorizontalPodAutoscalerList","apiVersion":"autoscaling/v2","items":[{"metadata":{"name":"h","namespace":"llm"},"spec":{"maxReplicas":9,"scaleTargetRef":{"kind":"Deployment","name":"vllm"}}}]}`)
		}
	})
	ns, err := c.Namespace(context.Background(), "llm")
	if err != nil || ns.Labels["paramedic.dev/managed"] != "true" || len(ns.Services) != 1 || ns.Budgets[0].Allowed != 0 ||
		ns.Autoscalers[0].Target != ref || ns.Autoscalers[0].Known {
		t.Errorf("%+v %v", ns, err)
	}
}
