// Package kubernetes proves first aid against a real API server: a real control plane with kwok's
// kubelets, pods whose /metrics come from simulated engines that obey the pods' arguments, a real
// Prometheus that discovers them, and the bot's own binary with the service account of the
// manifests under deploy/kubernetes. The API server's audit log is the judge of what the bot wrote.
//
// It needs E2E_KUBECP (the control plane's binary), PARAMEDIC_BIN (the bot's) and a prometheus on
// the PATH or in PROMETHEUS_BIN; without any of them it fails and says so.
package kubernetes
