# What this project's people type often. `make` alone lists it.
PYTHON ?= .venv-test/bin/python
NAME ?= fig-overview
TRIES ?= 2000
SITE ?= docs/_build/html

.PHONY: help test check docs bench attack reproduce dist

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

test: ## all tests; make test ARGS=tests/core for some
	$(PYTHON) -m pytest -q -n auto $(ARGS)

check: ## linter, format, types, imports, names
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	$(dir $(PYTHON))lint-imports
	$(PYTHON) tools/house_words.py

docs: ## the site, in docs/_build/html; a warning is an error
	$(PYTHON) -m sphinx -q -W --keep-going -c docs -d docs/_build/doctrees . $(SITE)
	@echo "Look at it: $(PYTHON) -m http.server -d $(SITE)"

bench: ## speed beside other engines; make bench ARGS="--help"
	$(PYTHON) -m benchmarks $(ARGS)

attack: ## faults by the thousand; make attack TRIES=100 for fewer
	$(PYTHON) -m pytest -m attack --tries $(TRIES) tests/attacks -s

reproduce: ## a table or figure of the paper; make reproduce NAME=table-memorization
	$(PYTHON) -m flr.cli.main reproduce $(NAME)

dist: ## wheel and sdist, in dist/
	$(PYTHON) -m build
