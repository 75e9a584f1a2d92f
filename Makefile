# The front door. `make run` does everything on a fresh Debian 12 or 13, `make test` on 12.
# Targets stand in the order of `vial --help` and docs/README.md: running, judging, speed.
.DEFAULT_GOAL := help
.PHONY: run build install test coverage requirements lint fuzz load soak bench trace rooms \
	deps deps-test clean help

B ?= build
PREFIX ?= /usr/local
ROUNDS ?= 100

run: build ## run a snippet in the strongest vessel this host can give
	@$(B)/vial run --report python 'print(sum(range(101)))'

build: deps ## build/vial, build/vial-init, build/libvial.so
	@tools/build $(B)

install: build ## install below PREFIX (default /usr/local); DESTDIR is honoured
	@tools/install $(B) $(PREFIX)

test: deps-test build ## every test lane; ends with "N passed, N failed, N skipped"
	@tools/test $(B)

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

bench: deps-test build ## speed as ratios (ROUNDS=100); figures in build/bench.json, a picture in build/bench.svg
	@$(B)/vial bench --rounds $(ROUNDS) --output $(B)/bench.json --plot $(B)/bench.svg

trace: deps-test ## how many functions, in how many files, a cold and a warm run pass through
	@tools/trace

rooms: ## lines and files per room of src/, now and at other commits (AT="HEAD~20")
	@tools/rooms $(AT)

deps: ## install the Debian packages that building needs
	@tools/deps build

deps-test: ## install those that the tests need, too
	@tools/deps test

clean: ## remove what was built
	@rm -rf build build-*

help: ## list these targets
	@echo "vial: a sealed, single-use vessel for code you don't trust"
	@echo
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "'$(B)/vial --help' lists the commands, docs/README.md the pages of the guide."
