# The targets of CI and of developers. A target fetches or builds what it needs, except for Go and
# make.
SHELL := /bin/bash
GO ?= go
# Builds and tests have the same flags, so that they share Go's cache.
export GOFLAGS := -trimpath
VERSION := $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo devel)
# A tool's name ends in the hash of its go.sum, so a changed version is built anew.
tool = .cache/bin/$(1)-$(shell sha256sum $(2)/go.sum | cut -c1-12)
GOLANGCI := $(call tool,golangci-lint,tools/lint)
KUBECP := $(CURDIR)/$(call tool,kubecp,e2e/kubecp)

.PHONY: help build demo test race lint fuzz mutate holdout holdout-smoke artifacts e2e bench gobench generate generated \
	image release licences vuln chart clean

help: ## list the targets
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: ## build the binary into bin/, its version from the tag
	CGO_ENABLED=0 $(GO) build -o bin/paramedic \
		-ldflags '-s -w -X paramedic/cmd/paramedic/service.Version=$(VERSION)' ./cmd/paramedic

demo: build ## run the bot beside a simulated fleet with a fault, until it is repaired
	@echo "Paramedic demo: open http://127.0.0.1:8080 and watch. Ctrl-C ends it."
	./bin/paramedic demo

# Many tests wait for a server or a simulated fleet, so more packages and tests than cores run at a
# time. Simulated fleets create much garbage and keep little, so the collector runs less often. "make
# lint" vets.
test: ## run unit and story tests (needs only Go)
	CGO_ENABLED=0 GOGC=400 $(GO) test -vet=off -count=1 -p 4 -parallel 4 -timeout 20m ./...

CONCURRENT := ./cmd/paramedic/service/... ./notify/... ./remediate/... ./rules/enrich/... \
	./state/jetstream ./state/jetstream/inspect ./state/keeper/... ./state/outbox ./webhook/...
# A clustered nats-server 2.15.2 reads the staged state of an atomic batch without its lock
# (applyStreamMsgOp against batchStagedDiff.commit). The detector sometimes reports that race, so
# only "make test" runs the tests with a cluster.
race: ## run packages with goroutines under the race detector (needs a C compiler)
	@echo "skipped: TestCluster* of state/jetstream, for a race in nats-server 2.15.2"
	CGO_ENABLED=1 $(GO) test -race -short -count=1 -p 4 -parallel 4 -timeout 20m \
		-skip '^TestCluster(Conforms|OutlivesAServer|FillerKeepsSequences)$$' $(CONCURRENT)

lint: $(GOLANGCI) ## check format and style
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || \
		{ echo "gofmt these files:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	CGO_ENABLED=0 $(GOLANGCI) run --allow-parallel-runners ./...
	cd tools/evidence && CGO_ENABLED=0 $(GO) vet ./...
	cd tools/mutate && CGO_ENABLED=0 $(GO) vet ./...
	cd tools/holdout && CGO_ENABLED=0 $(GO) vet ./...
	cd tools/release && CGO_ENABLED=0 $(GO) vet ./...
	cd tools/chart && CGO_ENABLED=0 $(GO) vet ./...
	cd tools/vuln && CGO_ENABLED=0 $(GO) vet ./...
	cd tools/bars && CGO_ENABLED=0 $(GO) vet ./...

$(GOLANGCI):
	cd tools/lint && CGO_ENABLED=0 $(GO) build -o ../../$@ \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint

FUZZTIME ?= 30s
fuzz: ## fuzz every decoder for FUZZTIME each
	@GO=$(GO) .ci/fuzz $(FUZZTIME)

# Half an hour on two cores: about a thousand runs of small sets of tests. An interrupted run
# continues.
mutate: ## change each condition of first aid; a test must fail, or survivors.txt must explain it
	cd tools/mutate && CGO_ENABLED=0 $(GO) run .

# About three CPU hours. An interrupted run continues.
HOLDOUT ?= /tmp/paramedic-holdout
holdout: ## leave one convention out, each in turn: fit the weights without it, play it
	cd tools/holdout && CGO_ENABLED=0 $(GO) run . leave -dir $(HOLDOUT)

holdout-smoke: ## the same with few runs and without the written cases, in minutes
	cd tools/holdout && CGO_ENABLED=0 $(GO) run . leave -dir "$$(mktemp -d)" -train 22 -test 11 -cases ''

artifacts: build ## test what is shipped: the image with its bill of materials, the chart, the manifests
	cd tools/chart && CGO_ENABLED=0 $(GO) test -vet=off -count=1 ./...
	cd tools/release && PARAMEDIC_BIN=$(CURDIR)/bin/paramedic CGO_ENABLED=0 $(GO) test -vet=off -count=1 ./...

# The packages run side by side: each has its own servers and ports, and mostly waits for them.
e2e: build $(KUBECP) ## test with a real API server, Prometheus, Alertmanager and browser
	cd e2e && E2E_KUBECP=$(KUBECP) PARAMEDIC_BIN=$(CURDIR)/bin/paramedic CGO_ENABLED=0 \
		$(GO) test -count=1 -p 3 -timeout 30m ./...

$(KUBECP): e2e/kubecp/main.go e2e/kubecp/build.sh
	e2e/kubecp/build.sh $(KUBECP)

# A quarter of an hour on two cores, without other work. ALERTMANAGER names another binary than
# Debian's.
bench: ## measure the bars of docs/benchmarks.md, beside Alertmanager
	@cd tools/bars && CGO_ENABLED=0 $(GO) run .

gobench: ## run all Go benchmarks
	CGO_ENABLED=0 $(GO) test -run='^$$' -bench=. -benchmem ./...

generate: ## update the reference, the schemas and the manifests from code
	CGO_ENABLED=0 $(GO) test ./cmd/paramedic ./cmd/paramedic/config ./notify/slack \
		./rules/catalog ./rules/casetest ./playbooks \
		-run Generated -args -update
	cd tools/chart && CGO_ENABLED=0 $(GO) run . generate

generated: generate ## fail if generated files differ ("make test" and "make artifacts" compare them, too)
	git diff --exit-code -- docs deploy

RELEASE = cd tools/release && CGO_ENABLED=0 $(GO) run . $(1) -root ../.. -version $(VERSION)
image: ## build the image for amd64 and arm64 into dist/image, an OCI layout
	$(call RELEASE,image) -out ../../dist/image

release: ## build archives, checksums, bills of materials and the image into dist
	$(call RELEASE,archives) -out ../../dist
	$(call RELEASE,image) -out ../../dist/image

licences: ## list the licence of each linked module; fail if one is not allowed
	$(call RELEASE,licences)

VULNDB ?= https://vuln.go.dev
vuln: ## fail if the product reaches a known vulnerability; VULNDB=URL names another list of them
	cd tools/vuln && CGO_ENABLED=0 $(GO) test -vet=off -count=1 ./...
	@cd tools/vuln && CGO_ENABLED=0 $(GO) run . -db $(VULNDB)

VALUES ?= deploy/helm/paramedic/values-suggest.yaml
chart: ## print the chart's manifests with the values file VALUES
	@cd tools/chart && CGO_ENABLED=0 $(GO) run . render -f $(abspath $(VALUES))

clean: ## remove build outputs and caches
	rm -rf bin dist .cache
