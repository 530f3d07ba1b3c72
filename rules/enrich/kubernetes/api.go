package kubernetes

import (
	"fmt"

	apps "k8s.io/client-go/kubernetes/typed/apps/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	policy "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// An API gives access to the API groups that this package reads. A clientset is one, and has all
// the other groups too, which would make the binary megabytes larger.
type API interface {
	AppsV1() apps.AppsV1Interface
	CoreV1() core.CoreV1Interface
	PolicyV1() policy.PolicyV1Interface
}

// groups is an API with one connection and one rate limit for all groups.
type groups struct {
	apps   *apps.AppsV1Client
	core   *core.CoreV1Client
	policy *policy.PolicyV1Client
}

func newGroups(cfg *rest.Config) (*groups, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client: %w", err)
	}
	var g groups
	if g.apps, err = apps.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	if g.core, err = core.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	g.policy, err = policy.NewForConfigAndClient(cfg, client)
	return &g, err
}

func (g *groups) AppsV1() apps.AppsV1Interface       { return g.apps }
func (g *groups) CoreV1() core.CoreV1Interface       { return g.core }
func (g *groups) PolicyV1() policy.PolicyV1Interface { return g.policy }
