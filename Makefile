# Each target sets up what it needs, in .venv; nothing is installed outside this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
READY := $(VENV)/.ready
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
MADE := src/assay/serve/grpc/fep_pb2.py
export PYTHONDONTWRITEBYTECODE :=  # compiled once, or each of many short processes does it again

.PHONY: demo test lint form types suite bench soak docs lock clean
.DELETE_ON_ERROR:

# What running needs, with the hashes of its lock; then the project itself, editable, which hashes cannot cover.
$(RUN): requirements/run.txt pyproject.toml hatch_build.py
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"assay needs Python 3.11 or newer; $$(command -v $(PYTHON)) is {v[0]}.{v[1]}. Try: make PYTHON=python3.11")'
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) --require-hashes -r requirements/run.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $(RUN)

# What developing needs besides.
$(READY): requirements/dev.txt $(RUN)
	$(PIP) --require-hashes -r requirements/dev.txt
	touch $(READY)

# The messages of gRPC, made from their source.
$(MADE): proto/fep/v1/fep.proto hatch_build.py $(READY)
	$(BIN)/python hatch_build.py
	touch $(MADE)

demo: $(RUN)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

# Types are checked beside the tests: each leaves part of two cores idle.
test: form
	$(MAKE) --no-print-directory -j 2 types suite

lint: form types

form: $(MADE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(MADE)
	$(BIN)/pyright

suite: $(MADE)
	$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

bench: $(MADE)
	$(BIN)/python -m bench $(ARGS)

# Laws by examples of every run's own, the full length of what `make test` shortens, attacks, then mixed load.
soak: $(MADE)
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile=search
	$(BIN)/python -m pytest --soak
	$(BIN)/python -m bench.attacks
	$(BIN)/python -m pytest tests/stores/soak_faults.py
	$(BIN)/python -m bench.soak $(ARGS)

# The documents are checked against the code; their examples are run.
docs: $(MADE)
	$(BIN)/python -m pytest tests/project/test_docs.py $(ARGS)

# Pinned with hashes, without index addresses.
lock: $(READY)
	$(LOCK) --upgrade pyproject.toml --all-extras --group dev -o requirements/dev.txt
	$(LOCK) --constraint requirements/dev.txt pyproject.toml --extra store --group run -o requirements/run.txt

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
