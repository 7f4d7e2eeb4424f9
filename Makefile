# What people type; CMake does the work. `make help` lists the targets.
PREFIX ?= /usr/local
BENCH ?=
SOAK_ROUNDS ?= 50
SOAK_FUZZ_S ?= 600
SOAK_EVENTS ?= 20000000
SOAK_OPERATIONS ?= 50000000
SOAK_KILL_ROUNDS ?= 1000
SOAK_STORM_S ?= 600

.PHONY: help run test soak bench install deb docs fmt lint clean packages-% build-%

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1 \2/p' Makefile | awk '{ word = $$2; $$1 = $$2 = ""; printf "make %-8s %s\n", word, $$0 }'

run: packages-build packages-sample build-release ## daemon, two sample games and a live summary; RUN_SECONDS=5 ends it
	@client-lib/examples/run-demo

test: packages-build packages-test packages-package packages-sample ## build and test in every form: compilers, sanitizers, models, fuzzers
	@.ci/test

soak: packages-build packages-test packages-sample build-development build-asan build-fuzz ## the long forms: SOAK_EVENTS to four readers, SOAK_OPERATIONS of eight threads on a pool, SOAK_KILL_ROUNDS, SOAK_STORM_S of resources, SOAK_ROUNDS of integration, SOAK_FUZZ_S each fuzzer
	EC_BIN_DIR=$(CURDIR)/build/development/bin EC_EVENTS=$(SOAK_EVENTS) EC_KILL_ROUNDS=$(SOAK_KILL_ROUNDS) \
		build/development/tests/integration/integration-event_delivery
	EC_POOL_OPERATIONS=$(SOAK_OPERATIONS) CK_DEFAULT_TIMEOUT=600 \
		build/development/tests/unit/unit-client-lib-foundation-memory-pool_heap
	EC_BIN_DIR=$(CURDIR)/build/development/bin EC_STORM_S=$(SOAK_STORM_S) \
		build/development/tests/integration/integration-resource_storm
	ctest --preset asan -L integration --repeat until-fail:$(SOAK_ROUNDS)
	tests/fuzz/soak build/fuzz $(SOAK_FUZZ_S)

bench: packages-build packages-bench ## ratios against peers; BENCH=time|events|memory|resources|loading|breaker|control|stress for one area
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target all benchmarks
	@tests/bench/run $(BENCH)

install: packages-build ## into DESTDIR and PREFIX (default /usr/local)
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null
	@cmake --build --preset release
	@cmake --install build/release
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" -eq 0 ]; then ldconfig; fi

deb: packages-build packages-package ## Debian packages in build/package: daemon, library, dev, tools
	@cmake --preset package >/dev/null
	@cmake --build --preset package
	@cd build/package && cpack -G DEB >/dev/null && ls *.deb

docs: packages-build build-release ## write docs/generated, docs/man and config/engine-core.json from what the programs print
	@.ci/generated-docs $(CURDIR)/build/release/bin/engine-cored write

fmt: packages-lint ## format every C file
	@git ls-files -z '*.c' '*.h' '*.cpp' | xargs -0r clang-format -i

lint: packages-build packages-test packages-lint ## format, arrows, clang-tidy
	@cmake --preset development >/dev/null
	@.ci/lint

clean: ## remove everything that was built
	rm -rf build

packages-%:
	@.ci/install-packages $*

build-%: build/%/build.ninja
	@cmake --build --preset $*

.PRECIOUS: build/%/build.ninja
build/%/build.ninja: CMakePresets.json
	@cmake --preset $*
	@touch $@
