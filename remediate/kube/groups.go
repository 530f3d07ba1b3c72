package kube

import (
	"fmt"

	apps "k8s.io/client-go/kubernetes/typed/apps/v1"
	autoscaling "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	policy "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/rest"
)

// groups has clients of the API groups that first aid reads and writes. A clientset has all the
// other groups too, which would make the binary megabytes larger.
type groups struct {
	apps        *apps.AppsV1Client
	autoscaling *autoscaling.AutoscalingV2Client
	core        *core.CoreV1Client
	policy      *policy.PolicyV1Client
}

// newGroups returns clients that share one connection.
func newGroups(cfg *rest.Config) (*groups, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client: %w", err)
	}
	var g groups
	if g.apps, err = apps.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	if g.autoscaling, err = autoscaling.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	if g.core, err = core.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	g.policy, err = policy.NewForConfigAndClient(cfg, client)
	return &g, err
}
