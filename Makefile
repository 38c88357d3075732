# `make demo` and `make test` are all that a newcomer needs: they install what is missing first.
#
# Every command builds the whole workspace or a target of it (never --package): other features would build everything once more.

CARGO ?= cargo
SHARDS ?= 4
SECONDS ?= 15
FUZZ_SECONDS ?= 60
SEED ?= 1

.PHONY: help demo test fast simulated postgres processes verify fix fuzz bars install-build install-test clean

help:
	@echo 'make demo     analyse TPC-C, run it on $(SHARDS) shards for $(SECONDS) s, check every condition'
	@echo 'make fast     the tests that are pure: the daily loop'
	@echo 'make test     all tests; installs PostgreSQL, z3 and Chromium for some of them if they are missing'
	@echo 'make simulated, make postgres, make processes: the other tiers of the tests, one at a time'
	@echo 'make verify   formatting, lints and house rules; writes nothing'
	@echo 'make fix      mends what verify complains about, where a program can'
	@echo 'make fuzz     damaged inputs for every reader, for $(FUZZ_SECONDS) s'
	@echo 'make bars     measures what docs/bars.md claims and rewrites it'

install-build:
	@sh ci/install.sh build

install-test:
	@sh ci/install.sh test

demo: install-build
	@echo 'weir: building (the first time takes some minutes: PostgreSQL'"'"'s grammar is compiled too)'
	@$(CARGO) build --release --quiet --workspace --bin weir
	@$(CARGO) run --release --quiet --bin weir -- run examples/tpcc --shards $(SHARDS) --seconds $(SECONDS)

test: install-test
	$(CARGO) test --workspace --no-fail-fast

# Tiers are modules of the test programs (CONTRIBUTING.md); what is in none of the three is pure.
fast: install-build
	$(CARGO) test --workspace --tests -- --skip simulated:: --skip postgres:: --skip processes::

simulated: install-build
	$(CARGO) test --workspace --no-fail-fast --test '*' -- simulated::

postgres processes: install-test
	$(CARGO) test --workspace --no-fail-fast --test '*' -- $@::

verify: install-build
	$(CARGO) xtask verify

fix: install-build
	$(CARGO) xtask fix

fuzz: install-build
	$(CARGO) xtask fuzz --seconds $(FUZZ_SECONDS) --seed $(SEED)

bars: install-build
	$(CARGO) xtask bars

clean:
	$(CARGO) clean
