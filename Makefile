# The front door. `make run` and `make test` do everything on a fresh Debian 12.
.DEFAULT_GOAL := help
.PHONY: help deps build run test bench fuzz soak lint coverage install requirements clean

B ?= build
PREFIX ?= /usr/local
ROUNDS ?= 100

help: ## list these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

deps: ## install what building and testing needs (Debian packages)
	@tools/deps

build: deps ## build/vial, build/vial-init, build/libvial.so
	@tools/build $(B)

run: build ## run a snippet in the strongest vessel this host can give
	@$(B)/vial run --report python 'print(sum(range(101)))'

test: build ## every test lane; ends with "N passed, N failed, N skipped"
	@tools/test $(B)

bench: build ## speed as ratios (ROUNDS=100); figures in build/bench.json, a picture in build/bench.svg
	@$(B)/vial bench --rounds $(ROUNDS) --output $(B)/bench.json --plot $(B)/bench.svg

fuzz: deps ## fuzz the parsers for a while (FUZZ_SECONDS, default 60 each)
	@tools/fuzz

soak: build ## long tests: thousands of runs, kills at random points
	@tools/soak $(B)

lint: deps ## clang-format, clang-tidy, cppcheck, shellcheck; what is clean is remembered
	@tools/lint

coverage: deps ## line coverage of the unit tests; 'make requirements' shows it
	@mkdir -p $(B)/test && tools/coverage $(B)-cov $(B)/test/coverage.json

install: build ## install below PREFIX (default /usr/local); DESTDIR is honoured
	@tools/install $(B) $(PREFIX)

requirements: build ## which requirement has a passing test, and what the durations were
	@tools/requirements $(B)

clean: ## remove what was built
	@rm -rf build build-*
