#!/usr/bin/env bash
# Builds kubecp (etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok in one
# binary). Usage: build.sh [OUT]
#
# CGO_ENABLED and GOFLAGS are part of every package's cache key. With the Makefile's values, the
# tests share the compiled client-go and k8s.io/api.
set -euo pipefail
cd "$(dirname "$0")"
v=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${v#v}"
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  x="${x:-} -X $p.gitVersion=$v -X $p.gitMajor=$major -X $p.gitMinor=$minor"
done
CGO_ENABLED=0 exec go build -ldflags="-s -w $x" -o "${1:-kubecp}" .
