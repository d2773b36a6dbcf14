# What there is to do with this repository. Needs GNU make, a POSIX shell and Go.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 10s

# The same flags as in the Dockerfile: the program there and the one here are the same bytes.
BUILD = go build -tags urfave_cli_no_docs \
	-ldflags "-s -w -buildid= -X main.version=$(VERSION)"

# One set of flags for all that is compiled, so that building, testing, vet and staticcheck compile a package once.
export GOFLAGS := -trimpath -buildvcs=false $(GOFLAGS)
export CGO_ENABLED = 0

# Modules of their own, so that what they need stays out of the product's go.mod. Not test/consul: that is one file, and
# a tool that reads it wants hundreds of modules compiled.
TEST_MODULES = test/coredns test/grpchealth test/helm test/kafka test/mongodb
# Four packages at once: they wait for most of their time. Ten minutes for each, as go test would have it, are not enough
# where others take the machine's.
TEST = go test -p 4 -timeout 30m $(TESTFLAGS)
TESTFLAGS ?=
# Tools that read the sources, at the versions that test/tools/go.mod pins.
TOOL = go tool -modfile=test/tools/go.mod

.PHONY: help
help:
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s  %s\n", $$1, $$2 }'

.PHONY: build
build: ## bin/initbox: static, and from the same sources the same bytes (VERSION=… names it, GOARCH=… is another machine)
	$(BUILD) -o bin/initbox ./cmd/initbox

.PHONY: demo
demo: build ## the Kubernetes documentation's init containers, without a cluster
	go run ./test/demo -initbox bin/initbox

.PHONY: check
check: build gofmt vet staticcheck ## what to run after each edit, within a minute: reads the sources, and runs the tests that want no real server
	go test -short -vet=off ./...

# The compiler is busy while packages are installed. What it makes, the tests use: those of test/servers build the
# servers of the other modules.
.PHONY: test
test: ## all tests; installs the real servers they want, where it may (root and apt)
	@test/install-servers.sh & \
		for module in . $(TEST_MODULES); do go -C $$module list -test -deps -export ./... >/dev/null || break; done; wait $$!
	$(TEST) -vet=off ./...
	cd test/helm && $(TEST) -vet=off ./...

.PHONY: consul
consul: ## a real Consul for the tests, which do with a handler where there is none; four minutes or more, once
	test/consul/build.sh

# Not test/: what it adds runs in processes of their own, which the race detector does not see.
.PHONY: race
race: ## the tests of the packages that start goroutines, under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(TEST) -race -short -vet=off $$(test/goroutines.sh)

# Not test/helm: where Helm reads nonsense in another way than we do, nothing needs fixing.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s, or a number of inputs: 20000x)
	@grep -rl --include='*_test.go' --exclude-dir=test '^func Fuzz' . | xargs -n 1 dirname | sort -u | while read -r package; do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "go test $$package -fuzz $$target"; \
			go test $$package -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) </dev/null || exit; \
		done || exit; \
	done

.PHONY: soak
soak: ## what is random, for DURATION (20m), drawn from SEED: fuzzing, kills, races, mutants (of the lines changed since CHANGED)
	test/soak/run.sh

.PHONY: bench
bench: build ## measures initbox beside other tools, and keeps the report in docs/benchmarks.md
	PATH="$$(bash -c ". test/cluster/lib.sh; built kube")/bin:$$PATH" go run ./bench -initbox bin/initbox -write docs/benchmarks.md

.PHONY: image-test
image-test: ## builds the image with a Docker daemon of its own, and tries it (root, docker.io)
	images/test.sh

.PHONY: e2e
e2e: build ## the suite on a real Kubernetes: that of $KUBECONFIG, with $LOAD_IMAGE, or test/cluster's (root, Debian)
	test/e2e/run.sh

.PHONY: cluster-up
cluster-up: ## starts test/cluster's Kubernetes, of one node; builds it first, which takes ten minutes once
	test/cluster/up.sh

.PHONY: cluster-image
cluster-image: build ## puts bin/initbox into it, as the image initbox:dev
	go run ./test/e2e/image -tag initbox:dev -links -o bin/initbox.tar bin/initbox
	test/cluster/load-image.sh bin/initbox.tar

.PHONY: cluster-down
cluster-down: ## ends it
	test/cluster/down.sh

.PHONY: docs
docs: ## puts the --help of each command into its page
	go test ./docs -count=1 -run '^TestHelp$$' -update

.PHONY: lint
lint: gofmt tidy vet staticcheck govulncheck ## all that reads the sources without running them

.PHONY: gofmt
gofmt:
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt -w would change:"; echo "$$unformatted"; exit 1; }

.PHONY: tidy
tidy:
	@for module in . $(TEST_MODULES) test/tools; do echo "go mod tidy: $$module"; go -C $$module mod tidy -diff || exit; done

.PHONY: vet
vet:
	@for module in . $(TEST_MODULES); do echo "go vet: $$module"; go -C $$module vet ./... || exit; done

.PHONY: staticcheck
staticcheck:
	$(TOOL) staticcheck ./...

# A machine that cannot reach the database of vulnerabilities can still build and test.
.PHONY: govulncheck
govulncheck:
	@found=$$($(TOOL) govulncheck -tags urfave_cli_no_docs ./... 2>&1) && failed= || failed=1; \
	case "$$found" in \
	*"fetching vulnerabilities"*) echo "govulncheck: skipped, its database cannot be reached" ;; \
	*) echo "$$found"; [ -z "$$failed" ] ;; \
	esac

.PHONY: clean
clean: ## removes what make build made
	rm -rf bin
