# Needs python3 (3.11 or newer) with pip, and make. Everything is installed into .venv.
#   make PYTHON=python3.12 test     another interpreter (after make clean, if .venv exists)
#   make test ARGS="-k decay -x"    arguments for pytest

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 3
ARGS ?=
UPGRADE ?=
UV_VERSION := 0.13.7

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --custom-compile-command "make lock" --quiet $(UPGRADE)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo console test lint docs bench quality postgres extras soak scenarios specification browser lock clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.base $(VENV)/.project ## install, fetch the embedding model, store a conversation and recall from it
	@$(BIN)/tulving init
	@rm -rf .demo && mkdir .demo
	@$(BIN)/tulving --url "$${TULVING_URL:-sqlite:///.demo/memory.db}" demo

console: $(VENV)/.base $(VENV)/.project ## install, and serve the console with made-up memories
	@$(BIN)/tulving serve --demo

test: $(VENV)/.dev $(VENV)/.project ## run the tests, then count the scenarios that have none
	@status=0; $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS) || status=$$?; \
	$(BIN)/python scripts/scenarios.py --count || exit 1; exit $$status

lint: $(VENV)/.dev $(VENV)/.project ## ruff, pyright, the import contracts and the lines of code
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python scripts/sizes.py

docs: $(VENV)/.dev $(VENV)/.project ## build the documentation into build/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html"

bench: $(VENV)/.dev $(VENV)/.project ## run the benchmarks
	$(BIN)/python -m bench $(ARGS)

quality: $(VENV)/.dev $(VENV)/.project ## measure how well it finds, on data that lies beside the repository
	$(BIN)/python -m bench.quality $(ARGS)

postgres: $(VENV)/.dev $(VENV)/.project ## run a throw-away PostgreSQL with pgvector, and print its URL
	@$(BIN)/python tests/postgres_server.py

extras: $(VENV)/.dev $(VENV)/.project ## install each extra into an environment of its own, and use it there
	$(BIN)/python -m pytest -m install --timeout 900 $(ARGS)

soak: $(VENV)/.dev $(VENV)/.project ## run the long tests: load, kills, faults
	$(BIN)/python -m pytest -m soak --timeout 3600 $(ARGS)

scenarios: $(VENV)/.dev $(VENV)/.project ## list the scenarios of the specification that lack a test on an engine
	@$(BIN)/python scripts/scenarios.py

specification: $(VENV)/.dev $(VENV)/.project ## make the tables of docs/specification.md anew, and check them
	@$(BIN)/python scripts/specification.py

browser: ## install Debian's Chromium (as root), in which the console is tested
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq --no-install-recommends chromium; }

lock: $(VENV)/.created ## pin the dependencies anew (UPGRADE=--upgrade takes newer ones)
	$(PIP) uv==$(UV_VERSION)
	$(LOCK) --extra server --output-file requirements/base.txt
	$(LOCK) --all-extras --group dev --constraint requirements/base.txt --output-file requirements/dev.txt
	@! grep -nE '://|file:| @ ' requirements/*.txt || { echo "a lock file names an address or a path" >&2; exit 1; }

clean: ## remove the environment, the caches and the demo's file
	rm -rf $(VENV) .demo build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: each step is done once, and again only when what it depends on has changed.

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Tulving needs Python 3.11 or newer; there is no '$(PYTHON)'. Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { \
	  echo "Tulving needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." \
	       "Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test ! -x $(BIN)/python || $(BIN)/python -c '$(NEW_ENOUGH)' || { \
	  echo "$(VENV) was made with $$($(BIN)/python -V 2>&1), which is too old: run 'make clean' first." >&2; exit 1; }
	@# Where ensurepip is missing (Debian without python3-venv), the outer pip puts one into the environment.
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  echo "Creating $(VENV) with $$($(PYTHON) -V 2>&1) ..."; \
	  $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	    $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	    $(PYTHON) -m pip --disable-pip-version-check --python $(BIN)/python install --quiet --quiet pip; }; \
	fi
	@touch $@

$(VENV)/.base: requirements/base.txt $(VENV)/.created
	@echo "Installing $< ..."
	@$(PIP) --require-hashes -r $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.created
	@echo "Installing $< ..."
	@$(PIP) --require-hashes -r $<
	@touch $@

$(VENV)/.project: pyproject.toml $(VENV)/.created
	@echo "Installing tulving ..."
	@$(PIP) --no-deps --editable .
	@touch $@
