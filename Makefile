# `make` alone prints what there is to run.

.DEFAULT_GOAL := help
.PHONY: run build release test soak fuzz simulate bench lint fmt generate pictures cover help

testrun := go run ./tools/testrun
pinned  := go tool -modfile=$(CURDIR)/tools/lint/go.mod

run: ## start the gateway on this machine, with data in ./data
	go run ./cmd/sluice serve

build: ## build the one binary, bin/sluice
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/sluice ./cmd/sluice

release: ## build archives, packages, SBOMs and checksums for all platforms, in dist/
	go run ./tools/release -out dist

test: ## check everything: lint, then all tests; SLUICE_INSTALL=no installs nothing
	@echo 'make test: downloads modules, installs missing system packages with apt-get where it may (SLUICE_INSTALL=no: installs nothing and lists them), then runs lint and all tests: about 24 minutes on two cores in a fresh clone, 16 after that.'
	$(testrun) test

soak: ## the same, with the long tests; SLUICE_SEED=n repeats a run
	SLUICE_SOAK=1 $(testrun) soak

fuzz: ## every fuzz target for 10 minutes, 7 hours in all
	$(testrun) fuzz

simulate: ## a thousand nodes with outages in virtual time, a few minutes; SLUICE_SEED=n repeats, SLUICE_SIMULATE_BUG=name breaks a script
	SLUICE_SIMULATE=1 go test -count=1 -timeout 30m -v -run '^TestSimulation$$' ./internal/ledger/admission/redisledger

bench: ## print timings: start-up, memory, hot paths
	$(testrun) bench

lint: ## go vet, gofumpt and staticcheck
	$(testrun) lint

fmt: ## format all Go code
	$(pinned) gofumpt -w .

generate: ## write generated files again
	go generate ./...

pictures: ## take the pictures of the pages in docs/ again; look at them before you commit them
	test -d oracles/node/node_modules || npm --prefix oracles/node ci
	cd oracles && PICTURES=$(CURDIR)/docs go test -count=1 -run '^TestBrowser$$/^pictures$$' .

cover: ## coverage by package, and coverage/index.html
	$(testrun) cover

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
