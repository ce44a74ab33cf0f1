# The commands of this project. `make help` lists them.
#
# Needed: Python 3.11 or later with venv, a Rust toolchain, and a C compiler.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
REAL := .venv-real
BIN := $(VENV)/bin
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.lua' -o -name Cargo.toml)
PACKAGE := pyproject.toml $(shell find python -not -name '*.pyc' -not -name '*.so' -type f)

.DEFAULT_GOAL := help
.PHONY: help demo test test-rust test-python test-browser test-real lint lint-rust lint-python format develop
.PHONY: bench bench-peers bench-scale bench-client lock clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/installed ## install into .venv and run an example: no key, no network
	$(BIN)/runvil run examples/first-chat.md --replies examples/first-chat.replies.jsonl

test: develop ## everything that must pass: tests, types, lints
	@$(MAKE) --no-print-directory lint-python lint-rust test-rust test-python

test-rust: $(BIN)/python ## the tests of the crates
	@if cargo nextest --version >/dev/null 2>&1; \
	then cargo nextest run --workspace --exclude runvil-python --locked --no-tests=pass; \
	else cargo test --workspace --exclude runvil-python --locked --all-targets --quiet; fi
	cargo test --workspace --exclude runvil-python --locked --doc --quiet

test-python: develop ## the tests of the package
	$(BIN)/python -m pytest

test-browser: develop ## look at the page of `runvil log --html` with a headless Chromium, which must be installed
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	echo "make test-browser needs Chromium or Chrome on the PATH (Debian: apt-get install chromium)" >&2; exit 1
	$(BIN)/python -m pytest tests/browser

test-real: develop $(REAL)/litellm/installed $(REAL)/llama/installed ## tests against a LiteLLM proxy and llama.cpp with a small model
	RUNVIL_REAL=$(CURDIR)/$(REAL) $(BIN)/python -m pytest tests/real --timeout 300

lint: lint-python lint-rust ## every lint and type check

lint-rust: $(BIN)/python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

lint-python: develop
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest runvil._native --allowlist tests/python/stubtest-allowlist.txt

format: $(VENV)/dev-tools ## format everything
	cargo fmt --all
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

develop: $(VENV)/developed ## build into the source tree, for working on the project

bench: $(VENV)/dev-tools ## the benchmarks, on a release build
	$(BIN)/maturin develop --release --quiet
	@touch $(VENV)/developed
	$(BIN)/python -m pytest benches --benchmark-enable --benchmark-only
	cargo bench --package runvil-engine --locked

bench-peers: $(PEERS)/installed ## compare with what else one would pick: table and plot in benches/
	$(PEERS)/bin/python -m benches.run

bench-scale: $(PEERS)/installed ## tool rounds over HTTP, many conversations at once, fitting a window: benches/scale.md
	$(PEERS)/bin/python -m benches.scale.run

bench-client: $(PEERS)/installed ## compare the model client with what else one would pick: table in benches/client.md
	$(PEERS)/bin/python -m benches.client

lock: $(VENV)/dev-tools ## renew the pinned requirements
	$(BIN)/pip install --quiet --upgrade uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --group develop --no-header --upgrade -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --upgrade benches/requirements-peers.in -o benches/requirements-peers.txt
	for server in litellm llama; do $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --upgrade tests/real/requirements-$$server.in -o tests/real/requirements-$$server.txt; done

clean: ## remove what was built
	rm -rf $(VENV) $(PEERS) $(REAL) target python/runvil/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(RUST) $(PACKAGE) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check .
	@rm -f $(VENV)/developed
	@touch $@

$(VENV)/dev-tools: requirements-dev.txt | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(VENV)/developed: $(RUST) pyproject.toml $(VENV)/dev-tools
	$(BIN)/maturin develop --quiet
	@rm -f $(VENV)/installed
	@touch $@

$(PEERS)/peers: benches/requirements-peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -r benches/requirements-peers.txt
	@touch $@

$(REAL)/%/installed: tests/real/requirements-%.txt
	$(PYTHON) -m venv $(REAL)/$*
	$(REAL)/$*/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(PEERS)/installed: export PYO3_PYTHON := $(CURDIR)/$(PEERS)/bin/python
$(PEERS)/installed: $(RUST) $(PACKAGE) $(PEERS)/peers
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check .
	@touch $@
