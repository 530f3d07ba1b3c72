package kubernetes

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"paramedic/e2e/bot"
	"paramedic/lab/alerting"
	"paramedic/notify/slack"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
	"paramedic/webhook/api"
)

// The people of the tests: the policy names the first.
var (
	approver = slacktest.Person{ID: "U0ONCALL", Name: "ada"}
	stranger = slacktest.Person{ID: "U0STRANGER", Name: "mallory"}
)

const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5"

// A scene is a pool in its own namespace, and the bot that watches it.
type scene struct {
	*testing.T
	namespace string
	engines   *flock
	bot       *bot.Bot
	slack     *slacktest.Server
	gate      *gate
	onset     time.Time
}

// options configure a scene.
type options struct {
	mode     string
	engines  *flock
	readOnly bool // without the Role and the account of first aid
	gated    bool // the bot reaches the API server through a gate
	window   string
}

// setting creates the namespace, the pool with its engines, and the bot.
func setting(t *testing.T, o options) *scene {
	t.Helper()
	s := &scene{T: t, engines: o.engines, namespace: namespace(t)}
	raise(t, s.namespace, o.engines)
	if !o.readOnly {
		if err := shippedFirstAid(t.Context(), s.namespace); err != nil {
			t.Fatal(err)
		}
	}
	s.deploy()
	bot.Eventually(s, 40*time.Second, "Prometheus knows the pool", func() error { return monitoring.knows(s.namespace) })
	bot.Eventually(s, 40*time.Second, "Prometheus knows the pool's past", func() error { return monitoring.remembers(s.namespace) })
	s.engines.forget()
	s.slack = slacktest.New(slacktest.Options{})
	t.Cleanup(s.slack.Close)
	s.bot = bot.New(t)
	server := control.Config.Host
	if o.gated {
		s.gate = newGate(t)
		server = s.gate.URL
	}
	access := map[string]any{"kubeconfig": kubeconfig(t, s.bot.Dir(), server)}
	if !o.readOnly {
		access["first_aid_account"] = "paramedic/paramedic-first-aid"
	}
	s.bot.Configure(map[string]any{
		"clusters": []any{map[string]any{"name": "default", "prometheus": map[string]any{"url": monitoring.url}, "kubernetes": access}},
		"triage":   map[string]any{"settle": "1s", "resolve_hold": "1s"},
		"notify": map[string]any{"slack": map[string]any{"token_file": s.bot.Secret("token", "xoxb-e2e"),
			"signing_secret_file": s.bot.Secret("signing", signingSecret), "api_url": s.slack.URL()}},
		"remediate": map[string]any{"mode": o.mode,
			"policies": []any{map[string]any{"scope": map[string]any{"namespace": s.namespace}, "approvers": []string{approver.ID}}},
			"verify":   map[string]any{"settle": "8s", "window": or(o.window, "12s"), "interval": "1s", "min_samples": 5},
			"wait":     map[string]any{"blocked": "6s", "poll": "1s"},
		},
	})
	s.bot.Start()
	return s
}

func or(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}

// namespace creates a namespace that allows first aid.
func namespace(t *testing.T) string {
	t.Helper()
	return must(admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "llm-", Labels: map[string]string{"paramedic.dev/managed": "true"}}}, metav1.CreateOptions{}))(t).Name
}

// deploy creates the Deployment and its Service, and waits until the workers are ready.
func (s *scene) deploy() {
	s.Helper()
	bot.Eventually(s, 10*time.Second, "the namespace takes pods", func() error {
		_, err := admin.CoreV1().ServiceAccounts(s.namespace).Get(s.Context(), "default", metav1.GetOptions{})
		return err
	})
	must(admin.CoreV1().Services(s.namespace).Create(s.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: poolName},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": poolName, serving: "true"}, Ports: []corev1.ServicePort{{Port: 8000}}}},
		metav1.CreateOptions{}))(s.T)
	must(admin.AppsV1().Deployments(s.namespace).
		Create(s.Context(), deployment(), metav1.CreateOptions{FieldManager: "kubectl-create"}))(s.T)
	bot.Eventually(s, 30*time.Second, "the pool is ready", func() error { return s.rolledOut(256) })
}

// serving is the label that the Service selects and the Deployment does not.
const serving = "paramedic.dev/serving"

func deployment() *appsv1.Deployment {
	replicas, grace := int32(workers), int64(1)
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: poolName}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": poolName}},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": poolName, serving: "true"},
				Annotations: map[string]string{"prometheus.io/scrape": "true", "sim/ready-delay": "500ms"}},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
				Name: "vllm", Image: "vllm/vllm-openai:v0.24.0", Args: []string{"--model=" + modelName, "--max-num-seqs=256"},
				Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8000}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
			}}},
		},
	}}
}

func (s *scene) deployment() *appsv1.Deployment {
	s.Helper()
	return must(admin.AppsV1().Deployments(s.namespace).Get(s.Context(), poolName, metav1.GetOptions{}))(s.T)
}

// rolledOut returns nil if every worker runs with a value of max_num_seqs.
func (s *scene) rolledOut(maxSeqs int) error {
	d, err := admin.AppsV1().Deployments(s.namespace).Get(s.Context(), poolName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	st := d.Status
	if st.ObservedGeneration < d.Generation || st.UpdatedReplicas != workers || st.Replicas != workers || st.AvailableReplicas != workers {
		return fmt.Errorf("the rollout stands at %+v", st)
	}
	for _, p := range s.pods() {
		if got := maxNumSeqs(&p); got != maxSeqs {
			return fmt.Errorf("%s has max_num_seqs %d, not %d", p.Name, got, maxSeqs)
		}
	}
	return nil
}

func (s *scene) pods() []corev1.Pod {
	s.Helper()
	list := must(admin.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app=" + poolName}))(s.T)
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// alert posts alerts to the bot's webhook, as Alertmanager does.
func (s *scene) alert(status string, alerts ...webhookAlert) {
	s.Helper()
	hook := alerting.Webhook{Version: "4", GroupKey: `{}:{namespace="` + s.namespace + `"}`, WebhookData: alerting.WebhookData{
		Receiver: "paramedic", Status: status, ExternalURL: "http://alertmanager:9093", GroupLabels: map[string]string{"namespace": s.namespace},
		CommonLabels: map[string]string{"namespace": s.namespace}, CommonAnnotations: map[string]string{}}}
	if s.onset.IsZero() {
		s.onset = time.Now().Add(-2 * time.Minute).UTC()
	}
	for i, a := range alerts {
		labels := map[string]string{"alertname": a.name, "severity": a.severity, "namespace": s.namespace, "model_name": modelName,
			"cluster": "default"}
		if a.pod != "" {
			labels["pod"] = a.pod
		}
		one := alerting.WebhookAlert{Status: status, Labels: labels, Annotations: map[string]string{"summary": a.name}, StartsAt: s.onset,
			GeneratorURL: monitoring.url + "/graph", Fingerprint: fmt.Sprintf("%016x", i+1)}
		if status == "resolved" {
			one.EndsAt = time.Now().UTC()
		}
		hook.Alerts = append(hook.Alerts, one)
	}
	if code, answer, err := s.bot.Do(http.MethodPost, "/webhook/alertmanager", hook, nil); err != nil || code != http.StatusOK {
		s.Fatalf("the webhook answers %d %s (%v)", code, answer, err)
	}
}

type webhookAlert struct{ name, severity, pod string }

// exhaustion lists the alerts of a full cache.
var exhaustion = []webhookAlert{{"VLLMKVCacheExhaustion", "critical", ""}, {"LLMPreemptionStorm", "critical", ""}}

// actions returns the bot's actions, newest first.
func (s *scene) actions() ([]api.ActionJSON, error) {
	var list struct {
		Actions []api.ActionJSON `json:"actions"`
	}
	code, answer, err := s.bot.Do(http.MethodGet, "/api/v1/actions", nil, &list)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("GET /api/v1/actions: %d %s", code, answer)
	}
	return list.Actions, err
}

func (s *scene) action(id state.ActionID) (api.ActionJSON, error) {
	var a api.ActionJSON
	code, answer, err := s.bot.Do(http.MethodGet, "/api/v1/actions/"+string(id), nil, &a)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("GET action: %d %s", code, answer)
	}
	return a, err
}

// offered waits until the bot has an action in a state.
func (s *scene) offered(kind string, want state.ActionState) api.ActionJSON {
	s.Helper()
	var found api.ActionJSON
	bot.Eventually(s, 45*time.Second, fmt.Sprintf("%s is %s", kind, want), func() error {
		all, err := s.actions()
		if err != nil {
			return err
		}
		for _, a := range all {
			if a.Kind == kind && a.State == want {
				found = a
				return nil
			}
		}
		return fmt.Errorf("there is: %s", describe(all, s.incidents()))
	})
	return found
}

// becomes waits until an action is in one of the states, and fails at once if it ends in another.
func (s *scene) becomes(id state.ActionID, within time.Duration, want ...state.ActionState) api.ActionJSON {
	s.Helper()
	var now api.ActionJSON
	bot.Eventually(s, within, fmt.Sprintf("action %s is %v", id, want), func() error {
		var err error
		if now, err = s.action(id); err != nil {
			return err
		}
		if slices.Contains(want, now.State) {
			return nil
		}
		err = fmt.Errorf("it is %s: %s", now.State, describe([]api.ActionJSON{now}, nil))
		if now.State.Done() || now.State == state.NeedsHuman {
			return bot.Final(err)
		}
		return err
	})
	return now
}

func (s *scene) incidents() []api.IncidentJSON {
	list, err := s.bot.Incidents()
	if err != nil {
		return nil
	}
	return list
}

func describe(actions []api.ActionJSON, incidents []api.IncidentJSON) string {
	var b strings.Builder
	for _, in := range incidents {
		fmt.Fprintf(&b, "incident #%d %s %s %q; ", in.Number, in.Status, in.Cause, in.Title)
		for _, e := range in.Evidence {
			fmt.Fprintf(&b, "[%+.0f %s] ", e.Weight, e.Text)
		}
		fmt.Fprintf(&b, "missing %v; ", in.MissingEvidence)
	}
	for _, a := range actions {
		fmt.Fprintf(&b, "%s %q is %s (%s) %s", a.Kind, a.Change, a.State, a.Reason, a.Verdict)
		for _, g := range a.Guards {
			if g.Decision != state.Allow {
				fmt.Fprintf(&b, " [%s %s: %s]", g.Guard, g.Decision, g.Reason)
			}
		}
	}
	return b.String()
}

// diagnosed waits for the incident's verdict.
func (s *scene) diagnosed(cause string) api.IncidentJSON {
	s.Helper()
	var in api.IncidentJSON
	bot.Eventually(s, 60*time.Second, "the incident is diagnosed as "+cause, func() error {
		list, err := s.bot.Incidents()
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("%d incidents: %s", len(list), describe(nil, list))
		}
		if in = list[0]; string(in.Cause) != cause {
			return fmt.Errorf("it is %s", describe(nil, list))
		}
		return nil
	})
	return in
}

// click waits until the incident's message has a button, and sends a signed click of a person.
func (s *scene) click(who slacktest.Person, actionID string) {
	s.Helper()
	var body []byte
	bot.Eventually(s, 30*time.Second, "the message has the button "+actionID, func() error {
		messages := s.slack.Messages()
		if len(messages) != 1 {
			return fmt.Errorf("%d messages", len(messages))
		}
		var err error
		body, err = s.slack.Click(who, messages[0].TS, actionID, 0)
		return err
	})
	req := must(http.NewRequest(http.MethodPost, s.bot.URL()+"/webhook/slack/interaction", bytes.NewReader(body)))(s.T)
	req.Header = slacktest.Sign(signingSecret, body, time.Now())
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if code, answer, err := s.bot.Send(req, nil); err != nil || code != http.StatusOK {
		s.Fatalf("the click is answered with %d %s (%v)", code, answer, err)
	}
}

// approve clicks the button as the approver.
func (s *scene) approve() { s.Helper(); s.click(approver, slack.ActionApprove) }

// timeline returns the incident's timeline as text.
func (s *scene) timeline(id state.IncidentID) string {
	s.Helper()
	code, answer, err := s.bot.Do(http.MethodGet, "/api/v1/incidents/"+string(id)+"/timeline", nil, nil)
	if err != nil || code != http.StatusOK {
		s.Fatalf("the timeline: %d %s (%v)", code, answer, err)
	}
	return answer
}

// settled checks what must hold at every test's end.
func (s *scene) settled() {
	s.Helper()
	if failures := s.slack.Failures(); len(failures) > 0 {
		s.Errorf("Slack would have refused: %v", failures)
	}
	neverDeleted(s.T, s.namespace)
}

func forbidden(err error) bool { return apierrors.IsForbidden(err) }
