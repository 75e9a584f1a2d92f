# The front door. `make run` does everything on a fresh Debian 12 or 13, `make test` on 12.
.DEFAULT_GOAL := help
.PHONY: help deps deps-test build run test bench fuzz load soak lint coverage install requirements clean

B ?= build
PREFIX ?= /usr/local
ROUNDS ?= 100

help: ## list these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

deps: ## install the Debian packages that building needs
	@tools/deps build

deps-test: ## install those that the tests need, too
	@tools/deps test

build: deps ## build/vial, build/vial-init, build/libvial.so
	@tools/build $(B)

run: build ## run a snippet in the strongest vessel this host can give
	@$(B)/vial run --report python 'print(sum(range(101)))'

test: deps-test build ## every test lane; ends with "N passed, N failed, N skipped"
	@tools/test $(B)

bench: deps-test build ## speed as ratios (ROUNDS=100); figures in build/bench.json, a picture in build/bench.svg
	@$(B)/vial bench --rounds $(ROUNDS) --output $(B)/bench.json --plot $(B)/bench.svg

fuzz: deps-test ## fuzz parsers, keeper and host for a while (FUZZ_SECONDS, default 60 each)
	@tools/fuzz

load: deps-test build ## many callers beside a hostile one, for ten minutes (LOAD="--seconds 60")
	@VIAL=$(abspath $(B))/vial /usr/bin/python3 tests/serve/load.py --json $(B)/load.json $(LOAD)

soak: deps-test build ## long tests: thousands of runs, kills at random points
	@tools/soak $(B)

lint: deps-test ## clang-format, clang-tidy, cppcheck, shellcheck; what is clean is remembered
	@tools/lint

coverage: deps-test build ## lanes once more, for the lines that they run; counts with the last 'make test'
	@tools/test $(B) coverage

install: build ## install below PREFIX (default /usr/local); DESTDIR is honoured
	@tools/install $(B) $(PREFIX)

requirements: build ## which requirement has a passing test, and what the durations were
	@tools/requirements $(B)

clean: ## remove what was built
	@rm -rf build build-*
