# Everything a user or CI runs. All targets are idempotent; `make` alone lists them.
SHELL := /bin/bash
# Needed on a machine that has no make yet: nothing. `scripts/install-deps` brings the rest.
DEPS ?= yes
VENV := .venv
PYTHON := $(VENV)/bin/python
# Looked for when it is needed: `deps` may just have installed it.
PYTHON3 = $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)
# Whose docstrings have arguments, results and errors: contracts, the model, the kits for plugins.
CONTRACTS := vnetperf/model vnetperf/testing vnetperf/plugin $(wildcard vnetperf/*/base.py) vnetperf/runner/bench.py

.PHONY: help install deps deps-test venv engine demo test test-fast test-all check bench fuzz lock clean

help:
	@echo "make install    install what is missing, vnetperf into .venv and the generator's engine (minutes)"
	@echo "make demo       install what is missing and measure OVS-DPDK in a PVP deployment"
	@echo "make test       install what is missing and run what every merge must show"
	@echo "make test-fast  the tests that need neither root nor DPDK"
	@echo "make test-all   every test: guests of every form, generators, more kills; for the night"
	@echo "make check      lint, format, types, import rules, docstrings"
	@echo "make fuzz       odd orders, frames, logs and TOML for FUZZ_SECONDS (120) and FUZZ_EXAMPLES (300)"
	@echo "make bench      the figures of docs/performance.md, measured on this machine"
	@echo "make clean      remove the virtual environment and caches of this checkout"

deps:
	@[ "$(DEPS)" = no ] || echo "make: looking for system packages; what is missing is installed ..."
	@[ "$(DEPS)" = no ] || scripts/install-deps run

deps-test:
	@[ "$(DEPS)" = no ] || scripts/install-deps test

# The stamp is older than the dependency lists when they have changed.
$(VENV)/.run-stamp: setup.cfg pyproject.toml | deps
	@[ -n "$(PYTHON3)" ] || { echo "make: no Python >= 3.11 with venv was found" >&2; exit 1; }
	@[ -x $(PYTHON) ] || $(PYTHON3) -m venv $(VENV)
	@echo "make: installing vnetperf and its Python packages into $(VENV) (a minute or two) ..."
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# CI takes the packages that it was tried with, by their hashes; vnetperf then lacks none.
$(VENV)/.dev-stamp: setup.cfg pyproject.toml ci/requirements.lock | deps-test
	@[ -n "$(PYTHON3)" ] || { echo "make: no Python >= 3.11 with venv was found" >&2; exit 1; }
	@[ -x $(PYTHON) ] || $(PYTHON3) -m venv $(VENV)
	@[ -z "$(CI)" ] || $(PYTHON) -m pip install --quiet --disable-pip-version-check \
		--require-hashes --requirement ci/requirements.lock
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.run-stamp

venv: $(VENV)/.run-stamp

engine: venv
	@echo "make: building the generator's engine ..."
	@$(PYTHON) -m vnetperf.traffic.loadgen.build

install: deps venv engine
	@echo "make: done; next: . $(VENV)/bin/activate; vnetperf doctor"

demo: install
	$(PYTHON) -m pytest testcases/ -k pvp_dpdk --frame-sizes 64,1518

# The lanes are in tests/run.py.
test: deps-test $(VENV)/.dev-stamp
	$(PYTHON) -m tests.run merge

test-fast: deps-test $(VENV)/.dev-stamp
	$(PYTHON) -m tests.run fast

test-all: deps-test $(VENV)/.dev-stamp
	$(PYTHON) -m tests.run daily

check: deps-test $(VENV)/.dev-stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pydoclint $(CONTRACTS)
	$(PYTHON) -m tests.house
	$(PYTHON) -m vnetperf.report.schema docs/results.schema.json --check
	$(MAKE) --no-print-directory -C vnetperf/traffic/loadgen/engine lint
	$(MAKE) --no-print-directory -C vnetperf/vswitches/cgnat/engine lint
	$(MAKE) --no-print-directory -C vnetperf/vnfs/vloop/engine lint
	clang-format --style=file:vnetperf/host/engine/.clang-format --dry-run --Werror \
		vnetperf/host/*.[ch] vnetperf/vswitches/xdp/*.[ch] vnetperf/vswitches/cgnat/bpf/*.[ch] vnetperf/vswitches/lb/*.c vnetperf/traffic/xdpgen/*.c vnetperf/vnfs/vloop/*.c vnetperf/workloads/mpi/*.c vnetperf/virt/*.c \
		benchmarks/*.c

# The engine's parts under AddressSanitizer and UBSan; logs, TOML files, and what the engine writes
# (histograms, timelines, captures and the pcaps made of them) by Hypothesis.
fuzz: export FUZZ_SECONDS ?= 120
fuzz: export FUZZ_EXAMPLES ?= 300
fuzz: deps-test $(VENV)/.dev-stamp
	$(MAKE) --no-print-directory -s -C tests/engine/unit OUT=$(CURDIR)/build/fuzz
	FUZZ_SEED=$$RANDOM$$RANDOM build/fuzz/unit fuzz
	$(PYTHON) -m pytest -q -n 0 tests/log/test_full_disk.py tests/config/test_errors.py \
		tests/traffic/test_engine.py -k "crafted or odd"

bench: deps venv engine
	$(PYTHON) -m benchmarks.all

# What CI installs, for Linux and every Python that is supported: versions stay unless setup.cfg
# excludes them, or with UPGRADE=--upgrade. Needs uv.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --extra dev $(UPGRADE) setup.cfg --output-file ci/requirements.lock

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
