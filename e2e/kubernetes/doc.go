// Package kubernetes tests first aid against a real control plane with kwok's kubelets. The pods'
// /metrics come from simulated engines that obey the pods' arguments. A real Prometheus discovers
// them. The bot's binary runs with the service account of deploy/kubernetes. The API server's audit
// log shows what the bot wrote.
//
// The package needs E2E_KUBECP (the control plane's binary), PARAMEDIC_BIN (the bot's) and a
// prometheus on the PATH or in PROMETHEUS_BIN. It fails if one is missing.
package kubernetes
