# make help lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

VERSION := $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X millrace/cmd.version=$(VERSION)

# The areas of `make test AREA=…` and their packages.
AREAS := log schema transforms runtime rest postgres mysql sinks cmd peers
PACKAGES_log := ./log/...
PACKAGES_schema := ./schema/...
PACKAGES_transforms := ./transforms/...
PACKAGES_runtime := ./runtime/...
PACKAGES_rest := ./rest/...
PACKAGES_postgres := ./connectors/postgres/...
PACKAGES_mysql := ./connectors/mysql/... ./connectors/cdc/...
PACKAGES_sinks = $(shell go list ./connectors/... 2>/dev/null | grep -vE "/connectors/(postgres|mysql|cdc)")
PACKAGES_cmd := ./cmd/...
PACKAGES_peers := ./deploy/...
ifdef AREA
ifeq ($(filter $(AREA),$(AREAS)),)
$(error there is no area $(AREA); there are: $(AREAS))
endif
PACKAGES := $(PACKAGES_$(AREA))
else
PACKAGES := ./...
endif

.PHONY: build
build: ## bin/millrace, static
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/millrace ./cmd/millrace

.PHONY: test
test: build build/peerd ## all tests, with real servers; AREA=log|schema|transforms|runtime|rest|postgres|mysql|sinks|cmd|peers runs a part
	MILLRACE_PEERS=required build/peerd hold $(MAKE) -k --no-print-directory test-plain test-simulated test-race

# The parts of make test. Bare, each of them leaves the tests out that need a real server.
.PHONY: test-plain test-simulated test-race
test-plain:
	go test -count=1 -timeout 15m $(PACKAGES)

# Simulations run in fake time, whose clock stands still while anything waits for a mutex. Under this tag the Kafka client waits on
# channels instead; a wait that hangs is ended by the timeout. They are called TestSim… and have files of their own.
test-simulated:
	@packages=$$(go list -tags synctests -f '{{$$d := .ImportPath}}{{range .TestGoFiles}}{{$$d}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$d}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}' $(PACKAGES) \
	  | while read -r package file; do if [[ -n $$package ]] && grep -q '^//go:build.*synctests' "$$file"; then echo "$$package"; fi; done | sort -u); \
	if [[ -z $$packages ]]; then echo 'no simulations in $(PACKAGES)'; exit; fi; \
	set -x; go test -tags synctests -count=1 -timeout 5m -run '^TestSim' $$packages

# The race detector makes everything several times slower: less effort, and no real servers, so that what needs one is left out.
test-race: export MILLRACE_EFFORT := $(if $(RACE_EFFORT),$(RACE_EFFORT),20)
test-race: export CGO_ENABLED := 1
test-race:
	@packages=$$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(PACKAGES) | grep -v '^millrace/deploy/' || true); \
	if [[ -z $$packages ]]; then echo 'nothing for the race detector in $(PACKAGES)'; exit; fi; \
	set -x; env -u MILLRACE_PEERS go test -race -count=1 -timeout 15m $$packages

.PHONY: soak
soak: build build/peerd ## the same tests for hours: MILLRACE_EFFORT=1500
	MILLRACE_PEERS=required MILLRACE_SOAK=1 MILLRACE_EFFORT=$${MILLRACE_EFFORT:-1500} RACE_EFFORT=300 build/peerd hold \
	  $(MAKE) -k --no-print-directory soak-plain test-simulated test-race
.PHONY: soak-plain
soak-plain:
	go test -count=1 -timeout 12h $(PACKAGES)
	MILLRACE_POSTGRES=18 go test -count=1 -timeout 4h $(PACKAGES_postgres)

# Without ST1005: many error texts are Connect's own, which begin with a capital, and scripts look for them.
STATICCHECK := go tool staticcheck -checks inherit,-ST1005
.PHONY: lint
lint: ## gofmt, vet, staticcheck
	@bad=$$(gofmt -l $$(git -c safe.directory='*' ls-files -co --exclude-standard '*.go')); if [[ -n $$bad ]]; then echo "not formatted: $$bad"; exit 1; fi
	go vet ./...
	go vet -tags synctests ./...
	$(STATICCHECK) ./...
	$(STATICCHECK) -tags synctests ./...

.PHONY: demo
demo: build ## changes of a real PostgreSQL into topics, a search server and a file; until Ctrl-C, or ONCE=1; SEARCH=elasticsearch instead of opensearch
	@go build -o build/millrace-demo ./deploy/demo
	@build/millrace-demo $(if $(ONCE),-once) $(if $(SEARCH),-search $(SEARCH))

.PHONY: bench
bench: build ## the figures, each beside its peer; CHECK=1 fails below what we promise, ONLY="start encode avro transforms registry post many pool pool-delay postgres mysql s3 search log" picks (mysql-debezium beside; postgres: stream snapshot latency transaction debezium; log: log-java log-sync log-latency log-memory log-idle log-restart log-kill log-stored), CONNECTORS=500, POOL_TASKS=300, LOG_GB=20, OUT=FILE keeps
	@go build -o build/millrace-bench ./deploy/bench
	@build/millrace-bench $(if $(CHECK),-check) $(if $(ONLY),-only '$(ONLY)') $(if $(PAIRS),-pairs $(PAIRS)) $(if $(CONNECTORS),-connectors $(CONNECTORS)) $(if $(POOL_TASKS),-pool-tasks $(POOL_TASKS)) $(if $(LOG_GB),-log-gb $(LOG_GB)) $(if $(LOG_RECORDS),-log-records $(LOG_RECORDS)) $(if $(OUT),-out $(OUT))

.PHONY: peers
peers: build/peerd ## install what the real servers need (PostgreSQL, kcat, a JDK, jars, confluent-kafka) without running anything
	build/peerd install

.PHONY: build/peerd
build/peerd:
	@go build -o $@ ./deploy/peers/peerd

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14
