# The front door. `make run` and `make test` do everything on a fresh Debian.
# Targets stand in the order of `vial --help` and docs/README.md: running, judging, speed.
.DEFAULT_GOAL := help
.PHONY: run build install uninstall dist deb image test test-packages test-debian12 \
	test-debian13 test-sid test-arm64 test-musl test-cluster coverage requirements lint fuzz load soak kills bulk bench pictures trace \
	rooms deps deps-test deps-arm64 deps-musl deps-cluster deps-packages deps-deb deps-image deps-bare clean help

B ?= build
PREFIX ?= /usr/local
ROUNDS ?= 100

run: build ## run a snippet in the strongest vessel this host can give
	@$(B)/vial run --report python 'print(sum(range(101)))'

build: deps ## build/vial, build/vial-init, build/libvial.so
	@tools/build $(B)

install: build ## install below PREFIX (default /usr/local); DESTDIR is honoured
	@tools/install $(B) $(PREFIX)

uninstall: ## remove what 'make install' with the same PREFIX and DESTDIR has made
	@tools/uninstall $(PREFIX)

dist: ## the source of the last commit as an archive, and the clients' packages, in build/dist
	@tools/dist $(B)/dist
	@tools/dist-clients $(B) $(B)/dist

deb: deps-deb ## Debian packages of the last commit, in build/deb
	@tools/deb $(B)/deb

image: deps-image deb ## an OCI image with the daemon, made of those packages: build/vial-image.tar
	@DEBS=$(B)/deb ARCHIVE=$(B)/vial-image.tar images/build vial

test: deps-test build ## every test lane, or LANES="e2e warm"; ends with "N passed, N failed, N skipped"
	@tools/test $(B) $(LANES)

test-debian12 test-debian13 test-sid: deps-bare ## 'make run' and 'make test', from a clone on, on a bare system
	@tests/bare/run $(@:test-%=%) $(B)/bare

test-arm64: deps-arm64 ## lanes in a Debian of arm64, emulated; hours (ARM64="contract e2e": less)
	@tools/test $(B) arm64

test-musl: deps-musl ## vial built with musl, from Debian's sources, and what it runs
	@tools/test $(B) musl

test-cluster: deps-cluster build ## a fleet in a real Kubernetes; drills under load (CLUSTER=short: one)
	@tools/test $(B) cluster$(if $(CLUSTER),_$(CLUSTER))

test-packages: deps-packages ## packages are built, installed, used, upgraded and purged in bare roots
	@tools/test $(B) packages

coverage: deps-test build ## lanes once more, for the lines that they run; counts with the last 'make test'
	@tools/test $(B) coverage

requirements: build ## which requirement has a passing test, and what the durations were
	@tools/requirements $(B)

lint: deps-test ## clang-format, clang-tidy, cppcheck, shellcheck; what is clean is remembered
	@tools/lint

fuzz: deps-test ## fuzz parsers, keeper and host for a while (FUZZ_SECONDS, default 60 each)
	@tools/fuzz

load: deps-test build ## many callers beside a hostile one, for ten minutes (LOAD="--seconds 60")
	@VIAL=$(abspath $(B))/vial /usr/bin/python3 tests/serve/load.py --json $(B)/load.json $(LOAD)

soak: deps-test build ## long tests: thousands of runs, kills at random points
	@tools/soak $(B)

kills: deps-test build ## kill -9 of all that writes to the store of images, at random points (KILLS=200 each)
	@VIAL=$(abspath $(B))/vial IMAGES_KILLS=$(or $(KILLS),200) /usr/bin/python3 -m pytest -q \
	  -p no:cacheprovider tests/images/test_kills.py

bulk: deps-test build ## 10,000 programs of which the truth is known (BULK="--rows 500 --seed 1")
	@VIAL=$(abspath $(B))/vial /usr/bin/python3 tests/e2e/truth.py $(BULK)

pictures: deps-test build ## the guide's pictures of the page, made by the browser lane
	@tools/test $(B) page && cd $(B)/page && \
	  cp play.png terminal.png cells.png run.png dark.png narrow-sessions.png $(CURDIR)/docs/guide/pictures/

bench: deps-test build ## speed as ratios (ROUNDS=100); figures in build/bench.json, a picture in build/bench.svg
	@$(B)/vial bench --rounds $(ROUNDS) --output $(B)/bench.json --plot $(B)/bench.svg

trace: deps-test ## how many functions, in how many files, a cold and a warm run pass through
	@tools/trace

rooms: ## lines and files per room of src/, now and at other commits (AT="HEAD~20")
	@tools/rooms $(AT)

deps: ## install the packages that building needs
	@tools/deps build

deps-test: ## install those that the tests need, too
	@tools/deps test $(LANES)

deps-arm64 deps-musl deps-cluster deps-packages:
	@tools/deps test $(@:deps-%=%)

deps-deb deps-image deps-bare:
	@tools/deps build $(@:deps-%=%)

clean: ## remove what was built
	@rm -rf build build-*

help: ## list these targets
	@echo "vial: a sealed, single-use vessel for code you don't trust"
	@echo
	@awk -F':.*## ' '/^[a-z0-9 -]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "'$(B)/vial --help' lists the commands, docs/README.md the pages of the guide."
