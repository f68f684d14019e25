# `make` alone prints what there is to run.

.DEFAULT_GOAL := help
.PHONY: run build release test check apicheck barecheck soak fuzz simulate bench lint fmt generate pictures contracts cover help

# Everything is built the way make build builds it, so that nothing is compiled for it and for the tests, and nothing again in
# another clone: without paths, and without cgo, which the race detector alone needs.
export GOFLAGS     := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)
export CGO_ENABLED := 0

pinned  := go tool -modfile=$(CURDIR)/tools/lint/go.mod
# Not go run, and exec: a signal that ends make must reach it.
testrun := @go build -o bin/testrun ./tools/testrun && exec bin/testrun
fuzz    := tools/testrun/fuzz

# The packages of the module, the longest tests first: none of them should run alone at the end.
first    := ./internal/testkit/faulttest ./internal/app ./internal/testkit/clustertest ./cmd/sluice ./internal/store/sqlstore ./internal/ledger/admission/redisledger
packages  = $(first) $(filter-out $(first),$(patsubst sluice/%,./%,$(shell go list ./...)))
# Those that test the files of deploy/ and the release.
checks   := ./tools/deploycheck ./tools/release
module    = $(filter-out $(checks),$(packages))
# Those that are tested without the race detector: packages that compute, which it slows down tenfold, and those that start
# the whole program, whose parts run together under it in the tests of app.
without  := ./cmd/% ./api% ./bench/% ./tools/% ./internal/testkit/archtest ./internal/account/billing% ./internal/testkit/clustertest ./internal/store/sqlstore% ./sandbox/clips%
raced     = $(filter-out $(without),$(packages))
unraced   = $(filter $(without),$(packages))
# Browsers and other people's clients, which mostly wait.
oracles  := cd oracles && nice -n 5 $$GOTEST -parallel=2 ./...
# The race detector does not watch the memory of some packages, only calls into them. SQLite and its libraries are C translated
# to Go, which would take two fifths of the time of all tests with a database; package scene draws pictures, package tokens
# splits words, and neither shares what it changes. At its end it would wait for a second for races that are about to be reported.
race     := CGO_ENABLED=1 GORACE=atexit_sleep_ms=10 $$GOTEST -race $(patsubst %,-gcflags=%=-race=false,modernc.org/libc modernc.org/memory modernc.org/sqlite/lib sluice/internal/prompt/tokens sluice/sandbox/clips/scene)
# The server with net/http for all requests: http1_lane: off must always be a way out.
lane-off := SLUICE_HTTP1_LANE=off
served   := ./internal/app ./internal/api/httpapi ./internal/api/httpserver
# What make check tests without the race detector. The others run the same tests under it, and those that start the server
# run them twice: here with package lane, and under the detector without it.
plain     = $(served) $(filter-out $(checks),$(unraced))
long     := -count=1 -timeout=60m
# The order of a soak. The tests in timed have bounds in seconds, because they are promises to operators, and mostly wait: they
# come first and have the machine for themselves; no more than three of them run at once, since each has servers and a database
# of its own. Then come fuzz targets, tests that compute, and at last those in whole, which start several servers at once.
timed    := ./internal/testkit/faulttest ./internal/testkit/clustertest
whole    := ./internal/app ./cmd/sluice
# Their long tests compute, ten times as long under the race detector, which watches their short ones in make check.
compute  := ./internal/ledger/admission/redisledger ./internal/kit/lane ./internal/ledger/usage ./internal/ledger/cluster ./internal/ledger/reconcile ./internal/api/messages

# Nothing is inlined in the pages, which saves 1.6 MiB of the binary.
cold = -gcflags=sluice/internal/web/...=-l

# A build of a tagged commit is a release. Any other calls itself a development build, see package buildinfo.
tag = $(firstword $(shell git tag --points-at HEAD --list 'v*' 2>/dev/null))

# Targets that compare package lane with net/http get more time: a difference there can hide a request from whatever stands
# in front of us.
fuzzed      = $(shell grep -rl --include='*_test.go' '^func Fuzz' api bench cmd internal sandbox tools)
fuzz-lane   = $(filter internal/kit/lane/%,$(fuzzed))
fuzz-others = $(filter-out internal/kit/lane/%,$(fuzzed))
benchmarked = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' '^func Benchmark' api bench cmd internal sandbox tools))))

run: ## start the gateway on this machine, with data in ./data
	go run ./cmd/sluice serve

build: ## build the one binary, bin/sluice
	CGO_ENABLED=0 go build -trimpath $(cold) -ldflags='-s -w $(patsubst v%,-X sluice/internal/kit/buildinfo.version=%,$(tag))' -o bin/sluice ./cmd/sluice

release: ## build archives, packages, image, SBOMs and checksums for all platforms, in dist/; URL=https://… is where they will be
	go run ./tools/release -out dist $(if $(URL),-url '$(URL)')

test: ## all tests, 8 minutes on two cores, longer in a fresh clone; SLUICE_INSTALL=no installs nothing
	@echo 'make test: downloads modules, installs missing system packages with apt-get where it may (SLUICE_INSTALL=no: installs nothing and lists them), then runs all tests: about 8 minutes on two cores, longer in a fresh clone.'
	$(testrun) '& $(oracles)' '$$GOTEST $(module)'

check: ## what CI runs: lint, all tests, most of them under the race detector, http1_lane: off, deploy/, the release
	$(testrun) -checks '$$GOTEST $(plain)' '& nice -n 10 make lint' '$(oracles)' \
		'$(lane-off) $(race) $(served)' '$(race) $(filter-out $(served),$(raced))' '$(lane-off) $$GOTEST ./cmd/sluice' '$$GOTEST $(checks)' 'cd tools/manifests && $$GOTEST ./...'

apicheck: ## the Helm chart against a real API server of Kubernetes, which is compiled first: 6 minutes
	cd tools/apicheck && go vet . && go test -count=1 .

barecheck: ## README, docs/start and docs/run word by word on a bare Debian made by debootstrap; needs root, 8 minutes
	tools/barecheck/barecheck

soak: export SLUICE_SOAK := 1
soak: export SLUICE_SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
soak: export SLUICE_FAULTS_PAGE := $(CURDIR)/docs/soak.md
soak: ## everything with the long tests, 60 minutes; SLUICE_SEED=n repeats a run
	$(testrun) -checks 'make lint' '$(race) $(long) -run=- $(filter $(timed),$(raced))' \
		'& $(race) $(long) -parallel=3 $(filter $(timed),$(raced))' '$$GOTEST $(long) $(filter $(timed),$(unraced))' \
		'$(fuzz) 150s $(fuzz-lane)' '& nice -n 15 $(fuzz) 10s $(fuzz-others)' \
		'nice -n 5 $$GOTEST $(long) $(compute) $(filter-out $(timed) $(whole),$(unraced))' 'nice -n 5 env $(race) $(long) $(filter-out $(timed) $(whole) $(compute),$(raced))' \
		'$(race) $(long) $(filter $(whole),$(raced))' '$$GOTEST $(long) $(filter $(whole),$(unraced))' \
		'cd oracles && $$GOTEST $(long) ./...' 'cd tools/manifests && $$GOTEST $(long) ./...' \
		'$$GOTEST $(long) -run "^(TestSimulation|TestMigrate)\$$" ./internal/ledger/admission/redisledger ./internal/app' \
		'SLUICE_SOAK= $(lane-off) $$GOTEST $(long) $(served) ./cmd/sluice'

fuzz: ## every fuzz target for 10 minutes, 7 hours in all
	$(fuzz) 15m $(fuzz-lane)
	$(fuzz) 10m $(fuzz-others)

simulate: ## a thousand nodes with outages in virtual time, a few minutes; SLUICE_SEED=n repeats, SLUICE_SIMULATE_BUG=name breaks a script
	SLUICE_SIMULATE=1 go test -count=1 -timeout 30m -v -run '^TestSimulation$$' ./internal/ledger/admission/redisledger

bench: ## print timings: start-up, memory, hot paths; and what got slower since the last time on this machine
	$(testrun) -durable 'go run ./bench/startup' 'go run ./bench/load' \
		'go test -run "^\$$" -bench . -benchmem -benchtime 70ms -count 3 $(benchmarked) | go run ./bench/gobench'

lint: ## go vet, gofumpt and staticcheck
	@echo gofumpt; files=$$($(pinned) gofumpt -l .) && test -z "$$files" || { echo "$$files"; echo 'these files are not formatted: run make fmt'; exit 1; }
	@staticcheck=$$($(pinned) -n staticcheck) && for dir in . oracles tools/manifests; do (cd $$dir && echo "go vet and staticcheck in $$dir" && go vet ./... && $$staticcheck ./...) || exit 1; done

fmt: ## format all Go code
	$(pinned) gofumpt -w .

generate: ## write generated files again
	go generate ./...

pictures: ## take the pictures in docs/pictures again, of "sluice demo"; look at them before you commit them
	test -d oracles/node/node_modules || npm --prefix oracles/node install --no-save
	cd oracles && PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run '^TestBrowser$$/^pictures$$' .
	go run ./tools/pictures

contracts: ## the names of the official SDKs against ours, in oracles/contracts; SDK=openai@7.56.0 tries another version
	oracles/contracts/run $(SDK)

cover: ## coverage by package, and coverage/index.html
	rm -rf coverage && mkdir -p coverage/data
	$(testrun) '$$GOTEST -count=1 -coverpkg=./internal/...,./cmd/... $(module) -args -test.gocoverdir=$(CURDIR)/coverage/data' \
		'go tool covdata percent -i coverage/data && go tool covdata textfmt -i coverage/data -o coverage/cover.out && go tool cover -html coverage/cover.out -o coverage/index.html'

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
