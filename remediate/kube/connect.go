package kube

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Connect connects to an API server through a kubeconfig and one of its contexts. An empty context
// is the kubeconfig's current one. With neither, it uses the service account of the bot's own pod.
func Connect(kubeconfig, kubecontext string, o Options) (*Cluster, error) {
	if kubeconfig == "" && kubecontext == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no kubeconfig is set, and Paramedic does not run in a pod: %w", err)
		}
		return New(cfg, o)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: kubecontext}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	return New(cfg, o)
}
