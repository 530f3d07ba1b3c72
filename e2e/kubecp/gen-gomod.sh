#!/usr/bin/env bash
# Regenerates go.mod for the chosen Kubernetes version. Usage: gen-gomod.sh 1.36.3 v0.8.0
set -euo pipefail
minor=${1#1.}; KV=v1.$minor; SV=v0.$minor; KWOK=${2:-v0.8.0}
mod=$(go mod download -json k8s.io/kubernetes@$KV | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
{
  echo "module paramedic/e2e/kubecp"
  echo
  echo "go $(sed -n 's/^go //p' "$mod")"
  echo
  echo "require ("
  echo "	k8s.io/kubernetes $KV"
  echo "	sigs.k8s.io/kwok $KWOK"
  echo ")"
  echo
  echo "replace ("
  sed -n "s#^\t\(k8s.io/[a-z0-9-]*\) => ./staging/.*#\t\1 => \1 $SV#p" "$mod"
  echo ")"
} > go.mod
