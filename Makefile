# Tools are pinned here, kept in .tools (ignored by git) and fetched when missing; none is in go.mod.
ENVOY_VERSION := 1.40.0# as in tools/envoy.txt
GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.9.0
FUZZTIME ?= 1m

TOOLS := $(CURDIR)/.tools
ENVOY := $(TOOLS)/envoy-$(ENVOY_VERSION)
H2SPEC := $(TOOLS)/h2spec-2.2.1# as in tools/h2spec/go.mod
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
GOVULNCHECK := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory --warn-undefined-variables

# Packages that need nothing but Go, redis-server and memcached.
unit_packages := $$(go list ./... | grep -v /integration)
# Those of the built binary. The faults run apart, since they judge times.
integration_packages := $$(go list ./integration/... | grep -v /faults)
# $(call timed,name,command) runs a command and says how long it took.
timed = start=$$SECONDS; status=0; { $(2); } || status=$$?; echo "== $(1): $$((SECONDS - start)) s"; exit $$status

.PHONY: all
all: build test race lint vuln ## Build, test, test with the race detector, lint, and look for vulnerabilities

.PHONY: help
help: ## Tell what can be made
	@grep -hE '^[a-z-]+:.* ## ' $(MAKEFILE_LIST) | sort | awk -F ':.* ## ' '{printf "  make %-11s %s\n", $$1, $$2}'

.PHONY: run
run: build ## Run ratelimitd with the sample policies: gRPC on 8081, HTTP on 8080, admin on 127.0.0.1:6070
	@bin/ratelimitd serve

.PHONY: demo
demo: build $(ENVOY) ## Run ratelimitd and a real Envoy in front of a backend, and print a curl to try
	@deploy/envoy/demo bin/ratelimitd $(ENVOY)

.PHONY: build
build: ## Build bin/ratelimitd
	@go build -o bin/ratelimitd ./cmd/ratelimitd

.PHONY: test
test: system ## Run every test, those with the real Envoy and the real Redis included; a skipped test fails
	@nice -n 19 $(MAKE) tools & $(MAKE) unit || failed=1; wait $$! || failed=1; \
		$(MAKE) --keep-going integration faults || failed=1; exit $${failed-0}

.PHONY: unit
unit: ## Run the tests that need no Envoy
	@$(call timed,unit tests,go run ./tools/gotest $(unit_packages))

.PHONY: integration
integration: tools ## Run the tests of the built binary behind the real Envoy, on the real Redis
	@$(call timed,integration tests,go run ./tools/gotest -count=1 $(integration_packages))

.PHONY: test-faults
test-faults: system ## Run the same as faults does, with faults of ten seconds
	@$(call timed,fault tests,OUTAGE=10s go run ./tools/gotest -count=1 -timeout 30m ./integration/faults)

SOAK ?= 10m
.PHONY: soak
soak: system ## Break the store at random for SOAK (10m), and look for what is wrong or left behind
	@$(call timed,soak,SOAK=$(SOAK) go test ./integration/faults -count=1 -v -timeout 25h -run TestSoak)

.PHONY: faults
faults: system ## Break the store under load, and compare every answer with what the rules allow
	@$(call timed,fault tests,go run ./tools/gotest -count=1 ./integration/faults)

.PHONY: race
race: tools ## Run the tests with the race detector, and histories of three replicas; in ratelimitd behind Envoy, too
	@$(MAKE) --keep-going race-unit race-integration race-faults

.PHONY: race-unit race-integration race-faults
# Packages that have goroutines, without the tests that flood a binary, which has no detector.
race-unit:
	@$(call timed,unit tests with the race detector,go run ./tools/gotest -race -skip TestHostile ./pkg/backend ./pkg/service ./pkg/transport \
		./pkg/reload ./pkg/statsd ./pkg/web ./pkg/xds ./cmd/ratelimitd)
race-integration: tools
	@$(call timed,integration tests with the race detector,go run ./tools/gotest -race -count=1 ./integration)
# Not the faults themselves, which judge times that the detector multiplies.
race-faults: system
	@$(call timed,histories with the race detector,go run ./tools/gotest -race -count=1 -run Histories ./integration/faults)

.PHONY: lint-tools
lint-tools: $(GOLANGCI_LINT) $(GOVULNCHECK)

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Check format, vet, golangci-lint and go.mod
	@$(call timed,lint,unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi; \
		go vet ./... && $(GOLANGCI_LINT) run ./... && go mod tidy -diff)

.PHONY: vuln
vuln: $(GOVULNCHECK) ## Look for known vulnerabilities in the code that is used; says so if the database cannot be reached
	@$(call timed,vulnerabilities,tools/vuln $(GOVULNCHECK))

.PHONY: bench
bench: ## Measure the cost of matching, of each algorithm and of the whole service
	@go test -run '^$$' -bench . -benchmem $(unit_packages)

LOAD ?=# more flags for bench-load, as ./tools/load tells them
.PHONY: bench-load
bench-load: build system ## Load the server and ones that decide nothing; tell the cost of a request (4 minutes)
	@go run ./tools/load -server bin/ratelimitd $(LOAD)

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (1m) each
	@for package in $(unit_packages); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "== $$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: tools
tools: system $(ENVOY) $(H2SPEC) ## Install and fetch what the tests need

.PHONY: system
system:
	@tools/install-missing

include tools/kubernetes.mk

.PHONY: clean
clean: ## Remove what was built and fetched
	rm -rf bin $(TOOLS)

$(ENVOY): tools/envoy.txt tools/fetch-envoy | system
	@echo "fetching Envoy $(ENVOY_VERSION)"
	@tools/fetch-envoy $@
	@touch $@

$(H2SPEC): tools/fetch-h2spec tools/h2spec/go.mod
	@echo "building h2spec"
	@tools/fetch-h2spec $@

$(GOVULNCHECK):
	@echo "building govulncheck $(GOVULNCHECK_VERSION)"
	@mkdir -p $(TOOLS)/vuln
	@GOBIN=$(TOOLS)/vuln GOFLAGS= go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv $(TOOLS)/vuln/govulncheck $@ && rmdir $(TOOLS)/vuln

$(GOLANGCI_LINT):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION), which takes a minute"
	@mkdir -p $(TOOLS)/new
	@GOBIN=$(TOOLS)/new GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(TOOLS)/new/golangci-lint $@ && rmdir $(TOOLS)/new
