#!/bin/sh
# Makes the secrets of compose.yaml in ./secrets. It keeps those that exist.
set -eu
cd "$(dirname "$0")"
mkdir -p -m 0700 secrets
# The containers run as other users and must read the files. The folder keeps others out.
umask 022
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
[ -e secrets/alertmanager-token ] || random >secrets/alertmanager-token
[ -e secrets/grafana-password ] || random >secrets/grafana-password
[ -e secrets/tokens.yaml ] || printf -- '- {token: "%s", name: "%s", role: admin}\n' "$(random)" "${USER:-me}" >secrets/tokens.yaml
echo "Token for http://127.0.0.1:8080: $(cut -d '"' -f 2 secrets/tokens.yaml)"
