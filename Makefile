# Every target makes its own .venv; nothing but Python 3.11+ and make is needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

PEERS  := flower pfl fluke fedjax fedlab
# what an edit breaks first: the seam, a round, the parts worked out by hand, specs, expressions
FAST   := tests/core tests/parts tests/metrics tests/network tests/machine tests/runs/test_spec.py \
          tests/runs/test_settings.py tests/test_expression.py tests/test_progress.py

# processes of the whole suite: one more than two cores have, since Flower, Ray and browsers keep tests waiting
TESTERS ?= 3

# compiled code is kept, also where the environment says not to: each of hundreds of started processes, and pytest of
# every file of tests, would compile anew
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test check lint types suite check-fast docs docs-serve bench peers clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	# torch first and pinned: a range would take the build with several gigabytes of CUDA
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)      ## the main job on embedded real data; ends with a table and a report
	$(BIN)/unskew demo

check: lint types    ## lint, format, types, and which layer may import which

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/lint-imports --no-logo

types: $(READY)
	$(BIN)/mypy

# one thread a process, as the tests themselves have: those that they start would wait for each other, busily.
# Memory in large pages, where Linux has them: tests fork a process of 500 MB hundreds of times, and a fork copies a list
# of its pages
suite: $(READY)
	OMP_NUM_THREADS=1 GLIBC_TUNABLES=glibc.malloc.hugetlb=1 $(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder

test: lint          ## lint, types and the whole suite; types beside the suite, since they take one core half a minute
	$(MAKE) --no-print-directory -j 2 types suite

check-fast: lint    ## lint, and in under a minute the tests of the core and of every part's arithmetic
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(FAST)

docs: $(READY)      ## the site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html (search works there too), or: make docs-serve"

docs-serve: $(READY) ## the site at http://127.0.0.1:8000, anew whenever a page changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(READY) peers  ## speed and scale, beside other libraries, as ratios in one run
	$(BIN)/python -m benchmarks

peers:              ## the other libraries, each in an environment of its own, for bench
	@for peer in $(PEERS); do $(MAKE) --no-print-directory .venv-peers/$$peer/.ready \
	  || echo "$$peer could not be installed; the comparison leaves it out"; done

.venv-peers/%/.ready: benchmarks/peers/requirements-%.txt
	$(PYTHON) -m venv .venv-peers/$*
	.venv-peers/$*/bin/python -m pip install --quiet --disable-pip-version-check -c $< torch
	.venv-peers/$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

clean:
	rm -rf $(VENV) .venv-peers site
