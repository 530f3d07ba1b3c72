# The targets that CI runs, and those that a newcomer needs. Everything but Go and make is fetched or built by the target itself.
SHELL := /bin/bash
GO ?= go
BIN := .cache/bin

.PHONY: help build demo test race lint fuzz mutate e2e browser bench generate clean

help: ## list the targets
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: ## build the binary into bin/
	CGO_ENABLED=0 $(GO) build -o bin/paramedic ./cmd/paramedic

demo: build ## the whole loop on this machine: a simulated fleet breaks, the bot finds out why and mends it
	@echo "Paramedic demo: open http://127.0.0.1:8080 and watch. Ctrl-C ends it."
	./bin/paramedic demo

test: ## unit and story tests of the product (needs only Go)
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 $(GO) test -count=1 -timeout 20m ./...

# nats-server 2.15.2 reads the staged state of an atomic batch without its lock (applyStreamMsgOp against batchStagedDiff.commit) when it
# is one of a cluster: the detector now and then finds that race, which is not ours. "make test" runs what is left out here.
race: ## the same tests under the race detector, of the lab's simulations and the rules' missing signals a sample (needs a C compiler)
	@echo "not under the race detector: TestCluster* of state/jetstream, for a race inside of nats-server 2.15.2"
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 20m -skip '^TestCluster(Conforms|OutlivesAServer)$$' $$($(GO) list ./... | grep -v '/lab$$\|/rules$$\|/cmd/paramedic$$')
	CGO_ENABLED=1 $(GO) test -race -short -count=1 -timeout 20m ./lab ./rules ./cmd/paramedic

lint: $(BIN)/golangci-lint ## formatting and the rules of the house
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt these files:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(BIN)/golangci-lint run --allow-parallel-runners ./...
	cd tools/evidence && CGO_ENABLED=0 $(GO) vet ./...
	cd tools/mutate && CGO_ENABLED=0 $(GO) vet ./...

$(BIN)/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && CGO_ENABLED=0 $(GO) build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# Counted, not timed: a fuzz run that ends by the clock now and then fails with "context deadline exceeded" (golang/go#75804).
FUZZTIME ?= 40000x
fuzz: ## every decoder, briefly
	@set -e; for f in $$(grep -rl --include=*_test.go '^func Fuzz' . --exclude-dir=e2e); do \
	  for t in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$f); do \
	    echo "fuzz $$t in $$(dirname $$f)"; CGO_ENABLED=0 $(GO) test -run='^$$' -fuzz="^$$t\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./$$(dirname $$f); done; done

# About a thousand runs of small sets of tests: half an hour on two cores. It goes on where it was interrupted.
mutate: ## change each condition of first aid: a test has to fail, or tools/mutate/survivors.txt says why none does
	cd tools/mutate && CGO_ENABLED=0 $(GO) run .

KUBECP := $(CURDIR)/.cache/bin/kubecp
e2e: build $(KUBECP) ## the real bot against a real API server, Prometheus, Alertmanager and browser
	cd e2e && E2E_KUBECP=$(KUBECP) PARAMEDIC_BIN=$(CURDIR)/bin/paramedic CGO_ENABLED=0 $(GO) test -count=1 -p 1 -timeout 30m ./...

$(KUBECP): e2e/kubecp/main.go e2e/kubecp/go.mod e2e/kubecp/go.sum e2e/kubecp/build.sh
	e2e/kubecp/build.sh $(KUBECP)

bench: ## the benchmarks behind docs/benchmarks.md
	CGO_ENABLED=0 $(GO) test -run='^$$' -bench=. -benchmem ./...

generate: ## the reference, the schema and the manifests that are made from code
	CGO_ENABLED=0 $(GO) test ./cmd/paramedic ./notify/slack ./rules ./playbooks -run Generated -args -update

clean: ## forget what was built
	rm -rf bin .cache
