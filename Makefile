# Every target makes what it needs from a bare clone: Python 3.11+, pip and make are enough.
# PYTHON=/path/to/python3.12 picks another interpreter; PYTEST_ARGS, BENCH_ARGS and DEMO_ARGS go to the program.
# CONSTRAINTS= (empty) installs the newest versions instead of those in requirements.lock.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Processes that share the tests of `make test`, a file at a time.
JOBS := 2
# The tests of `make test-fast`, less those marked `slow`. None starts a box, so they pass on any machine.
FAST := tests/agent tests/app tests/dispatch tests/formats tests/policy tests/recovery tests/registry tests/retrieval tests/turn \
	tests/test_checks.py tests/test_decisions.py tests/test_glossary.py tests/test_lock.py tests/test_packaging.py \
	tests/test_spec_coverage.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast escapes test-docker test-services check coverage bench soak lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## make .venv with the `knackbox` command and everything the targets below need

$(READY): pyproject.toml requirements.lock scripts/setup.sh
	@bash scripts/setup.sh $(VENV)
	@touch $@

demo: $(READY) ## the main job, end to end, with a scripted model
	@$(BIN)/knackbox demo $(DEMO_ARGS)

test: $(READY) ## all tests that need nothing but what the setup brings
	@$(BIN)/python -m pytest -m "not services and not soak and not docker" -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

test-fast: $(READY) ## the tests that start no box; `make check test-fast` takes less than a minute
	@$(BIN)/python -m pytest -m "not slow and not services and not soak and not docker" -n $(JOBS) --dist loadfile $(FAST) $(PYTEST_ARGS)

escapes: $(READY) ## every attempt of the escape suite, on the default backend
	@$(BIN)/python -m pytest -m escapes $(PYTEST_ARGS)

test-docker: $(READY) ## root, Debian: the Docker backend, on an engine and an image made here
	@bash scripts/docker_tests.sh $(VENV) $(PYTEST_ARGS)

test-services: $(READY) ## root, Debian: the tests that need more of the machine
	@bash scripts/services.sh $(VENV)

check: $(READY) ## lint, format, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

coverage: $(READY) ## the tests again, with a report of what they miss
	@$(BIN)/python -m pytest -m "not services and not soak and not docker" --cov $(PYTEST_ARGS)

bench: $(READY) ## calls, boxes, kernels beside their peers, lists of tools: time, boxes a second, memory
	@$(BIN)/knackbox bench $(or $(BENCH_ARGS),timings)

soak: $(READY) ## long kill and leak runs; SOAK_RUNS and SOAK_SEED set the largest
	@$(BIN)/python -m pytest -m soak --timeout 3600 $(PYTEST_ARGS)

lock: $(READY) ## resolve the dependencies again, into requirements.lock
	@$(BIN)/uv pip compile -q --universal --upgrade --all-extras --no-annotate --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

clean: ## remove the environment and every cache
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
