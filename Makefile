# Needs nothing but python3 (3.11 to 3.14): the first command makes .venv, with the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/.runs
READY := .venv/.ready
TORCH := $(shell grep '^torch==' constraints.txt)

.PHONY: train test test-slow lint type format bench docs site

train: $(RUNS)  ## Train a first fighter, and show how often it wins, also against the one that ships.
	$(BIN)/sb3-pvp quickstart

# Bytecode is kept, also where that is switched off: hundreds of processes would compile all modules anew.
test: $(READY)  ## All tests but the slow ones; a process more than cores, since some wait for others, and no long file last.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m "not slow" -n $$($(BIN)/python -c 'import os; print(min(os.cpu_count() + 1, 4))') \
		--dist loadfile --no-loadscope-reorder

test-slow: $(READY)  ## The slow tests.
	$(BIN)/python -m pytest -m slow

lint: $(READY)  ## Style, and who imports whom, without changing anything.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

type: $(READY)  ## Types.
	$(BIN)/mypy

format: $(READY)  ## Style, changing files.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## How fast world, acting and learning are here.
	$(BIN)/python -m benchmarks world
	$(BIN)/python -m benchmarks rollout
	$(BIN)/python -m benchmarks train

docs: $(READY)  ## The pages that are made from data.
	$(BIN)/python -m docs.contract_page > docs/contract.md
	$(BIN)/python -m docs.metrics_page > docs/metrics.md
	$(BIN)/python -m docs.commands_page > docs/commands.md
	$(BIN)/python -m docs.presets_page > docs/presets.md
	$(BIN)/python -m docs.examples_page > docs/examples.md
	$(BIN)/python -m docs.fighters_page > docs/fighters.md

site: $(READY)  ## The documentation as a site, in the folder site; fails if a link leads nowhere.
	$(BIN)/zensical build --clean --strict
	@echo "Open site/index.html. To search it: python3 -m http.server --directory site 8000 --bind 127.0.0.1"

# PyTorch goes first and alone, so that its exact version is settled before anything asks for a range.
$(RUNS): pyproject.toml setup.cfg constraints.txt
	@$(PYTHON) -c "import sys; sys.version_info >= (3, 11) or sys.exit('Python 3.11 to 3.14 is needed: PYTHON=python3.11')"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install "$(TORCH)"
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[train]"
	touch $@

# What only developers need: tests, linter, types, the site.
$(READY): $(RUNS)
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[dev]"
	touch $@
