# The targets that CI runs, and those that a newcomer needs. Everything but Go and make is fetched or built by the target itself.
SHELL := /bin/bash
GO ?= go
# One set of flags for builds and tests, so that they share Go's cache.
export GOFLAGS := -trimpath
VERSION := $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo devel)
# A tool's name ends in the hash of its go.sum: a new version is built, an old one is found.
tool = .cache/bin/$(1)-$(shell sha256sum $(2)/go.sum | cut -c1-12)
GOLANGCI := $(call tool,golangci-lint,tools/lint)
KUBECP := $(CURDIR)/$(call tool,kubecp,e2e/kubecp)

.PHONY: help build demo test race lint fuzz mutate e2e bench generate generated clean

help: ## list the targets
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: ## build the binary into bin/, its version from the tag
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X paramedic/cmd/paramedic/service.Version=$(VERSION)' -o bin/paramedic ./cmd/paramedic

demo: build ## the whole loop on this machine: a simulated fleet breaks, the bot finds out why and mends it
	@echo "Paramedic demo: open http://127.0.0.1:8080 and watch. Ctrl-C ends it."
	./bin/paramedic demo

test: ## unit and story tests of the product (needs only Go)
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 $(GO) test -count=1 -timeout 20m ./...

CONCURRENT := ./cmd/paramedic/service/... ./notify/... ./remediate/... ./rules/enrich/... ./state/... ./webhook/...
# nats-server 2.15.2 reads the staged state of an atomic batch without its lock (applyStreamMsgOp against batchStagedDiff.commit) when it
# is one of a cluster: the detector now and then finds that race, which is not ours. "make test" runs what is left out here.
race: ## what runs goroutines, under the race detector, without the longest tests (needs a C compiler)
	@echo "not under the race detector: TestCluster* of state/jetstream, for a race inside of nats-server 2.15.2"
	CGO_ENABLED=1 $(GO) test -race -short -count=1 -timeout 20m -skip '^TestCluster(Conforms|OutlivesAServer)$$' $(CONCURRENT)

lint: $(GOLANGCI) ## formatting and the rules of the house
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt these files:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GOLANGCI) run --allow-parallel-runners ./...
	cd tools/evidence && CGO_ENABLED=0 $(GO) vet ./...
	cd tools/mutate && CGO_ENABLED=0 $(GO) vet ./...

$(GOLANGCI):
	cd tools/lint && CGO_ENABLED=0 $(GO) build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

FUZZTIME ?= 30s
fuzz: ## every decoder, for FUZZTIME each
	@GO=$(GO) .ci/fuzz $(FUZZTIME)

# About a thousand runs of small sets of tests: half an hour on two cores. It goes on where it was interrupted.
mutate: ## change each condition of first aid: a test has to fail, or tools/mutate/survivors.txt says why none does
	cd tools/mutate && CGO_ENABLED=0 $(GO) run .

e2e: build $(KUBECP) ## the real bot against a real API server, Prometheus, Alertmanager and browser
	cd e2e && E2E_KUBECP=$(KUBECP) PARAMEDIC_BIN=$(CURDIR)/bin/paramedic CGO_ENABLED=0 $(GO) test -count=1 -p 1 -timeout 30m ./...

$(KUBECP): e2e/kubecp/main.go e2e/kubecp/build.sh
	e2e/kubecp/build.sh $(KUBECP)

bench: ## the benchmarks behind docs/benchmarks.md
	CGO_ENABLED=0 $(GO) test -run='^$$' -bench=. -benchmem ./...

generate: ## the reference, the schema and the manifests that are made from code
	CGO_ENABLED=0 $(GO) test ./cmd/paramedic/... ./notify/slack ./rules ./playbooks -run Generated -args -update

generated: generate ## fail if generated files are not committed ("make test" compares them, too)
	git diff --exit-code -- docs deploy

clean: ## forget what was built
	rm -rf bin .cache
