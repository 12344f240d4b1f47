# Each target sets up .venv by itself the first time, and again when the dependencies change.
# Another interpreter: make test PYTHON=/path/to/python3.12

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench torture soak docs site format clean distclean

READY := .venv/ready.stamp
PYTHON ?=
CANDIDATES := python3.11 python3.12 python3.13 python3 python
SUITABLE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## train two methods on pictures of dots in minutes, and see what sets them apart
	.venv/bin/untwine demo

test: $(READY) ## run the tests and the examples in the docstrings
	OMP_WAIT_POLICY=PASSIVE .venv/bin/python -m pytest -n auto --maxprocesses 8 --dist worksteal

lint: $(READY) ## check style, format and types
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/basedpyright

bench: $(READY) ## measure the speed
	.venv/bin/untwine bench

torture: $(READY) ## kill, flip bits and fill the disk in thousands of tries: is anything lost?
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE .venv/bin/python -m tests.torture --out results/torture.json

soak: $(READY) ## train for two hours: does memory stay flat, and speed steady?
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE .venv/bin/python -m tests.torture.soak --out results/soak.json

docs: $(READY) ## write the tables of the pages, and the lists of the Python reference
	.venv/bin/python docs/tables.py

site: $(READY) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html"

format: $(READY) ## put the code in order
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

clean: ## remove caches and builds
	rm -rf build dist site .pytest_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	rm -rf .venv

$(READY): pyproject.toml constraints.txt
	@found=; \
	for python in $(if $(PYTHON),"$(PYTHON)",$(CANDIDATES)); do \
	    if "$$python" -c '$(SUITABLE)' 2>/dev/null; then found="$$python"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "Untwine needs Python 3.11, 3.12 or 3.13 with its venv module, and found none among:" \
	        "$(or $(PYTHON),$(CANDIDATES)). Install one, or name one: make PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	fi; \
	echo "Setting up .venv with $$("$$found" --version)"; \
	"$$found" -m venv .venv
	.venv/bin/python -m pip install --disable-pip-version-check --progress-bar off --editable '.[dev]' --constraint constraints.txt
	@touch $@
