package kubernetes

import (
	apps "k8s.io/client-go/kubernetes/typed/apps/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	policy "k8s.io/client-go/kubernetes/typed/policy/v1"
)

// An API gives access to the API groups that this package reads. A clientset is one.
type API interface {
	AppsV1() apps.AppsV1Interface
	CoreV1() core.CoreV1Interface
	PolicyV1() policy.PolicyV1Interface
}
