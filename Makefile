# Every target works from a fresh clone and only needs Python 3.11 or newer, pip and make.
# PYTHON=/path/to/python3.12 selects another interpreter. PYTEST_ARGS, BENCH_ARGS and DEMO_ARGS are passed on.
# CONSTRAINTS= (empty) installs the newest versions instead of those in requirements.lock.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Number of processes that run the tests of `make test`; each test file runs in one of them.
# More than processors, because many tests wait.
JOBS := 4
# The tests of `make test-fast`, without those marked `slow`. None of them starts a box, so they pass on any machine.
FAST := tests/agent tests/app tests/dispatch tests/formats tests/policy tests/recovery tests/registry tests/retrieval tests/times \
	tests/turn \
	tests/test_checks.py tests/test_decisions.py tests/test_glossary.py tests/test_lock.py tests/test_packaging.py \
	tests/test_spec_coverage.py

# Tests and demonstrations start thousands of interpreters. Without files of bytecode, each would compile every module.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-random test-fast escapes test-aarch64 test-docker test-services check coverage bench soak lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## create .venv with the `knackbox` command and everything that the targets below need

$(READY): pyproject.toml requirements.lock scripts/setup.sh hatch_build.py sandbox/namespace/native/box_init.c
	@bash scripts/setup.sh $(VENV)
	@touch $@

demo: $(READY) ## run the demonstration: a scripted model uses the engine from end to end
	@$(BIN)/knackbox demo $(DEMO_ARGS)

test: $(READY) ## run all tests that need only what `make setup` installs
	@$(BIN)/python -m pytest -m "not services and not soak and not docker" -n $(JOBS) --dist loadfile --no-loadscope-reorder \
		$(PYTEST_ARGS)

test-random: $(READY) ## run the tests of `make test` in a random order; ORDER_SEED=n repeats one
	@seed=$(or $(ORDER_SEED),$$$$); echo "ORDER_SEED=$$seed"; \
	$(BIN)/python -m pytest -m "not services and not soak and not docker" -n $(JOBS) --dist loadfile --no-loadscope-reorder \
		--order-seed $$seed $(PYTEST_ARGS)

test-fast: $(READY) ## run the tests that start no box; `make check test-fast` takes less than a minute
	@$(BIN)/python -m pytest -m "not slow and not services and not soak and not docker" -n 2 --dist loadfile $(FAST) $(PYTEST_ARGS)

escapes: $(READY) ## run every attempt of the escape suite on the default backend
	@$(BIN)/python -m pytest -m escapes $(PYTEST_ARGS)

test-docker: $(READY) ## test the Docker backend; installs an engine and builds an image (root, Debian)
	@bash scripts/docker_tests.sh $(VENV) $(PYTEST_ARGS)

test-aarch64: $(READY) ## make the escape attempts in an emulated aarch64 machine (root, Debian); FAMILIES selects some
	@bash scripts/aarch64.sh $(VENV) $(FAMILIES)

test-services: $(READY) ## run the tests that need installed services; installs them (root, Debian)
	@bash scripts/services.sh $(VENV)

check: $(READY) ## check lint rules, format, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

coverage: $(READY) ## run the tests with a report of uncovered code
	@$(BIN)/python -m pytest -m "not services and not soak and not docker" --cov $(PYTEST_ARGS)

bench: $(READY) ## run the benchmarks of speed: calls, boxes, kernels and lists of tools
	@$(BIN)/knackbox bench $(or $(BENCH_ARGS),timings)

soak: $(READY) ## run the long kill and leak tests; SOAK_RUNS and SOAK_SEED set the length and seed
	@$(BIN)/python -m pytest -m soak --timeout 3600 $(PYTEST_ARGS)

lock: $(READY) ## resolve the dependencies again and write requirements.lock
	@$(BIN)/uv pip compile -q --universal --upgrade --all-extras --no-annotate --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

clean: ## remove the environment and all caches
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
