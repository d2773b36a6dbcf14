# What can be done with this repository. Needs GNU make, a POSIX shell and Go.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 10s

# The same flags as in the Dockerfile, so that both build the same bytes.
BUILD = go build -tags urfave_cli_no_docs \
	-ldflags "-s -w -buildid= -X main.version=$(VERSION)"

# One set of flags for everything that is compiled, so that building, testing, vet and staticcheck compile a package once.
export GOFLAGS := -trimpath -buildvcs=false $(GOFLAGS)
export CGO_ENABLED = 0

# Separate modules keep what they need out of the product's go.mod. test/consul is left out: it is a single file, and a
# tool that reads it would have to compile hundreds of modules.
TEST_MODULES = images examples/compose/web test/chart/helm test/coredns test/grpchealth test/helm test/kafka test/mongodb test/registry
# Those of them that have tests.
TESTED_MODULES = $(foreach module,$(TEST_MODULES),$(if $(shell find $(module) -name '*_test.go'),$(module)))
# Four packages at once: they spend most of their time waiting. The default limit of go test, ten minutes for each, is too
# short on a busy machine.
TEST = go test -p 4 -timeout 30m $(TESTFLAGS)
TESTFLAGS ?=
# Tools that read the sources, at the versions that test/tools/go.mod pins.
TOOL = go tool -modfile=test/tools/go.mod

.PHONY: help
help:
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s  %s\n", $$1, $$2 }'

.PHONY: build
build: ## builds bin/initbox and bin/kubectl-initbox: static and reproducible (VERSION=… sets the version, GOARCH=… the architecture)
	$(BUILD) -o bin/ ./cmd/initbox ./cmd/kubectl-initbox

.PHONY: plugin
plugin: ## builds bin/kubectl-initbox alone, the kubectl plugin (GOOS=darwin for macOS)
	$(BUILD) -o bin/kubectl-initbox ./cmd/kubectl-initbox

# PLATFORMS=linux/amd64,darwin/arm64 makes a part of them. SOURCE is the URL of the repository, for the Krew manifest.
.PHONY: release
release: ## makes all files of a release in dist/VERSION, from a clean working tree: make release VERSION=1.2.3
	go run ./cmd/release -version '$(VERSION)' $(if $(PLATFORMS),-platforms $(PLATFORMS)) $(if $(SOURCE),-source '$(SOURCE)') -o dist -- $(BUILD)

.PHONY: demo
demo: build ## runs the Kubernetes documentation's init containers, without a cluster
	go run ./test/demo -initbox bin/initbox

.PHONY: check
check: build gofmt vet staticcheck ## builds, and runs static checks and the tests that need no real server: within a minute, after each edit
	go test -short -vet=off ./...

# Compiles while packages are installed. The tests use what it compiles: those of test/servers build the servers of the
# other modules.
.PHONY: test
test: ## runs all tests; as root with apt, installs the real servers that they need
	@test/install-servers.sh & \
		for module in . $(TEST_MODULES); do go -C $$module list -test -deps -export ./... >/dev/null || break; done; wait $$!
	$(TEST) -vet=off ./...
	@for module in $(TESTED_MODULES); do echo "go test: $$module"; (cd $$module && $(TEST) -vet=off ./...) || exit; done

.PHONY: consul
consul: ## builds a real Consul for the tests, which otherwise use a fake one; takes four minutes or more, once
	test/consul/build.sh

# Not test/: most of what it adds runs in other processes, which the race detector does not see.
.PHONY: race
race: ## runs the tests of the packages that start goroutines, under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(TEST) -race -short -vet=off $$(test/goroutines.sh)

# The packages that calculate, and choose an int for what users give them. images/test.sh compiles all of it for arm.
.PHONY: test-32bit
test-32bit: ## runs tests where an int has 32 bits: as a program for 386, on amd64
	GOARCH=386 $(TEST) -short ./render/... ./internal/perm ./volume/prepare

# Not test/helm: where Helm parses invalid input differently, there is nothing to fix.
.PHONY: fuzz
fuzz: ## runs every fuzz target for FUZZTIME (10s, or a number of inputs: 20000x)
	@grep -rl --include='*_test.go' --exclude-dir=test '^func Fuzz' . | xargs -n 1 dirname | sort -u | while read -r package; do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "go test $$package -fuzz $$target"; \
			go test $$package -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) </dev/null || exit; \
		done || exit; \
	done

.PHONY: soak
soak: ## runs fuzzing, random kills, races and mutants for DURATION (20m), from SEED (mutants also of lines changed since CHANGED)
	test/soak/run.sh

.PHONY: bench
bench: build ## measures initbox and other tools, and writes the report to docs/benchmarks.md
	PATH="$$(bash -c ". test/cluster/lib.sh; built kube")/bin:$$PATH" go run ./bench -initbox bin/initbox -write docs/benchmarks.md

# PLATFORMS=linux/amd64,linux/arm64 builds some of the images. REGISTRY is the first part of their names, such as
# registry.example/team, and SOURCE the URL of the sources, for their labels.
comma = ,
IMAGE_PLATFORMS = $(or $(subst $(comma), ,$(PLATFORMS)),linux/amd64 linux/arm64 linux/arm/v7 linux/ppc64le linux/s390x linux/riscv64)
IMAGES = $(CURDIR)/dist/initbox-images.tar

.PHONY: binaries
binaries:
	@for platform in $(IMAGE_PLATFORMS); do \
		arch=$${platform#linux/} && arch=$${arch%/*} && echo "building dist/initbox-linux-$$arch" && \
		GOOS=linux GOARCH=$$arch GOARM=7 $(BUILD) -o dist/initbox-linux-$$arch ./cmd/initbox || exit; \
	done

.PHONY: images
images: binaries ## writes the images of all subcommands and of PLATFORMS to dist/initbox-images.tar, named REGISTRY/…:VERSION
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} go run -C images . build -binaries $(CURDIR)/dist \
		-version '$(VERSION)' -revision "$$(git rev-parse HEAD)" -source '$(SOURCE)' -registry '$(REGISTRY)' \
		-documentation '$(if $(SOURCE),$(SOURCE)/blob/HEAD/docs)' -platforms '$(IMAGE_PLATFORMS)' -o $(IMAGES)
	@echo "$(IMAGES) has $(if $(REGISTRY),$(REGISTRY)/)initbox:$(subst +,_,$(VERSION)) and an image for each subcommand;" \
		"next: docker load -i $(IMAGES), make image-load, or make push-images"

.PHONY: image-load
image-load: ## loads the images, for this machine's architecture, with $LOAD_IMAGE or into test/cluster, Docker or containerd
	@$(MAKE) images PLATFORMS=linux/$$(go env GOHOSTARCH | sed 's,^arm$$,arm/v7,')
	images/load.sh $(IMAGES)

.PHONY: push-images
push-images: ## pushes dist/initbox-images.tar, which make images wrote, to REGISTRY, with the logins of ~/.docker/config.json
	@test -n '$(REGISTRY)' || { echo 'push-images: REGISTRY is not set: make push-images REGISTRY=registry.example/team' >&2; exit 2; }
	go run -C images . push -registry '$(REGISTRY)' $(IMAGES)

.PHONY: image-test
image-test: ## builds and tests the image with its own Docker daemon (root, docker.io)
	images/test.sh

.PHONY: compose-test
compose-test: build ## runs the examples for docker compose and docker run with its own Docker daemon (root, docker.io, docker-compose)
	examples/compose/test.sh

.PHONY: e2e
e2e: build ## runs the suite on the cluster of $KUBECONFIG, with $LOAD_IMAGE, or on test/cluster's (root, Debian)
	test/e2e/run.sh

.PHONY: cluster-up
cluster-up: ## starts test/cluster's Kubernetes, with one node; the first time, builds it in ten minutes
	test/cluster/up.sh

.PHONY: cluster-image
cluster-image: build ## loads bin/initbox into that cluster, as the image initbox:dev
	go run ./test/e2e/image -tag initbox:dev -links -o bin/initbox.tar bin/initbox
	test/cluster/load-image.sh bin/initbox.tar

.PHONY: cluster-down
cluster-down: ## stops that cluster
	test/cluster/down.sh

.PHONY: docs
docs: ## writes the --help of each command into its page, and the counts of test/corpus
	go test ./docs -count=1 -run '^TestHelp$$' -update
	go test ./test/corpus -count=1 -run '^TestCount$$' -update
	go test ./cmd/kubectl-initbox/lint -count=1 -run '^TestPage$$' -update

.PHONY: chart
chart: ## writes the generated files of charts/initbox, and the golden output of its tests
	go test ./test/chart -count=1 -update

.PHONY: picture
picture: build ## runs the demo, and draws it in docs/demo.svg
	go run ./test/demo -initbox bin/initbox >bin/demo.txt
	go run ./test/demo/picture <bin/demo.txt >docs/demo.svg

.PHONY: site
site: ## makes the site of the pages in bin/site/public (Hugo and npm; as root on Debian, installs them)
	docs/site/build.sh

.PHONY: site-test
site-test: site ## opens each page of the site in Chromium, and follows its links
	node --test docs/site/test.mjs

.PHONY: lint
lint: gofmt tidy vet staticcheck actionlint govulncheck ## runs all static checks

.PHONY: gofmt
gofmt:
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt -w would change:"; echo "$$unformatted"; exit 1; }

.PHONY: tidy
tidy:
	@for module in . $(TEST_MODULES) test/tools; do echo "go mod tidy: $$module"; go -C $$module mod tidy -diff || exit; done

.PHONY: vet
vet:
	@for module in . $(TEST_MODULES); do echo "go vet: $$module"; go -C $$module vet ./... || exit; done
	@echo "go build: cmd/kubectl-initbox for macOS"; GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/kubectl-initbox

.PHONY: staticcheck
staticcheck:
	$(TOOL) staticcheck ./...

# Of scripts in workflows it checks more where shellcheck is installed.
.PHONY: actionlint
actionlint:
	$(TOOL) actionlint

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
