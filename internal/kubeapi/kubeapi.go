// Package kubeapi makes clients of the Kubernetes API groups that Paramedic uses. A clientset of
// client-go has all the other groups too, which would make the binary megabytes larger.
package kubeapi

import (
	"fmt"

	apps "k8s.io/client-go/kubernetes/typed/apps/v1"
	autoscaling "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	policy "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// A Client has the same methods as a clientset. Its groups share one connection.
type Client struct {
	apps        *apps.AppsV1Client
	autoscaling *autoscaling.AutoscalingV2Client
	core        *core.CoreV1Client
	policy      *policy.PolicyV1Client
}

// New returns a client. As in a clientset, all groups share the configuration's rate limit if it
// sets one.
func New(cfg *rest.Config) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.RateLimiter == nil && cfg.QPS > 0 {
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client: %w", err)
	}
	var c Client
	if c.apps, err = apps.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	if c.autoscaling, err = autoscaling.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	if c.core, err = core.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	c.policy, err = policy.NewForConfigAndClient(cfg, client)
	return &c, err
}

// AppsV1 returns the client of apps/v1.
func (c *Client) AppsV1() apps.AppsV1Interface { return c.apps }

// AutoscalingV2 returns the client of autoscaling/v2.
func (c *Client) AutoscalingV2() autoscaling.AutoscalingV2Interface { return c.autoscaling }

// CoreV1 returns the client of the core group.
func (c *Client) CoreV1() core.CoreV1Interface { return c.core }

// PolicyV1 returns the client of policy/v1.
func (c *Client) PolicyV1() policy.PolicyV1Interface { return c.policy }
