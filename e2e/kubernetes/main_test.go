package kubernetes

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"paramedic/e2e/cluster"
)

// One control plane and one Prometheus serve all tests; each test has a namespace, a pool and a bot
// of its own.
var (
	control    *cluster.Cluster
	admin      *kubernetes.Clientset
	objects    dynamic.Interface
	mapper     meta.RESTMapper
	monitoring *prometheus
	auditLog   string
)

// auditPolicy records all requests of the bot's service account with their bodies, and no others.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    users: ["system:serviceaccount:paramedic:paramedic"]
  - level: None
`

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/kubernetes cannot start:", err)
		os.Exit(1) // never skip silently
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "paramedic-e2e-")
	if err != nil {
		return 0, err
	}
	auditLog = filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return 0, err
	}
	stages, err := filepath.Abs("../testdata/kwok.yaml")
	if err != nil {
		return 0, err
	}
	control, err = cluster.Start(ctx, cluster.Options{Dir: dir, KwokConfig: stages,
		APIFlags: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog}})
	if err != nil {
		return 0, err
	}
	defer control.Stop()
	if admin, err = kubernetes.NewForConfig(control.Config); err != nil {
		return 0, err
	}
	for _, name := range []string{"gpu-0", "gpu-1"} {
		if err := makeNode(ctx, name); err != nil {
			return 0, err
		}
	}
	if objects, err = dynamic.NewForConfig(control.Config); err != nil {
		return 0, err
	}
	known, err := restmapper.GetAPIGroupResources(admin.Discovery())
	if err != nil {
		return 0, err
	}
	mapper = restmapper.NewDiscoveryRESTMapper(known)
	if err := shippedRights(ctx); err != nil {
		return 0, err
	}
	cluster.ServePods(ctx, admin, enginePort, engineOf)
	if monitoring, err = startPrometheus(dir); err != nil {
		return 0, err
	}
	defer monitoring.stop()
	// The tests wait for the cluster and the bot most of the time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		return 0, err
	}
	code := m.Run()
	if code == 0 {
		err = os.RemoveAll(dir) // 120 MB of etcd; kept after a failure
	} else {
		fmt.Fprintln(os.Stderr, "logs of the control plane and of Prometheus:", dir)
	}
	return code, err
}

func makeNode(ctx context.Context, name string) error {
	has := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"),
		"pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("32")}
	_, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has},
	}, metav1.CreateOptions{})
	return err
}

// must returns the value of a call, and fails the test on its error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
