# Each target installs what it needs into .venv and web/node_modules. Only `browser` installs something outside this folder.
# `python3`, or the system's of the same version: distributions optimize theirs with profiles, and the tests take a tenth less CPU time.
VERSION := import ensurepip, sys; print(sys.version_info[:2])
PYTHON ?= $(shell [ "$$(/usr/bin/python3 -c '$(VERSION)' 2>&1)" = "$$(python3 -c '$(VERSION)' 2>&1)" ] && echo /usr/bin/python3 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
READY := $(VENV)/.ready
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
MADE := src/assay/serve/grpc/fep_pb2.py
BROWSER := $(VENV)/.browser
TYPED := $(VENV)/.typed
PARTS := $(VENV)/.page-parts
APT := apt-get install -y -q --no-install-recommends
PAGE := src/assay/serve/page/dist/index.html
DIST_ENV := build/dist-env/.ready
SITE_ENV := build/site-env/.ready
USER_CODE := tests/api/user_code.py
DOCS_CODE := build/code-of-documents
PAGE_SOURCES := $(shell find web -name node_modules -prune -o -type f -print)
export PYTHONDONTWRITEBYTECODE :=  # write .pyc files: otherwise each short process compiles again

.PHONY: demo test lint form types suite bench scale soak soak-rows soak-load soak-programs docs dist site lock clean web browser screenshots
.DELETE_ON_ERROR:

# The requirements to run assay, with hashes. Then the project itself, editable; hashes cannot cover it.
$(RUN): requirements/run.txt pyproject.toml hatch_build.py
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"assay needs Python 3.11 or newer; $$(command -v $(PYTHON)) is {v[0]}.{v[1]}. Try: make PYTHON=python3.11")'
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) --require-hashes -r requirements/run.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $(RUN)

# The additional requirements for development. Python compiles a module when it is first imported: most never are.
$(READY): requirements/dev.txt $(RUN)
	$(PIP) --no-compile --require-hashes -r requirements/dev.txt
	touch $(READY)

# The gRPC messages, generated from the proto.
$(MADE): proto/fep/v1/fep.proto hatch_build.py $(READY)
	$(BIN)/python hatch_build.py
	touch $(MADE)

# The page, built from web/. `pip install .` and `make demo` work without it.
web: $(PAGE)

$(PAGE): $(PAGE_SOURCES) $(READY)
	$(BIN)/python web/build.py

# A browser for the tests of the page, which are skipped without one. Chromium without windows takes half of the CPU time.
browser: $(BROWSER)

$(BROWSER): $(READY)
	@command -v chromium-headless-shell >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q \
	       && { $(APT) chromium-headless-shell || command -v chromium >/dev/null || $(APT) chromium; }; } \
	  || command -v chromium >/dev/null \
	  || echo "the tests of the page are skipped, because there is no chromium: sudo apt-get install chromium"
	@touch $(BROWSER)

demo: $(RUN)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

# Type checks of src run in parallel with the tests: each alone leaves part of two cores idle. `make lint` checks the types of everything.
test: $(MADE)
	$(MAKE) --no-print-directory -j 2 suite form $(TYPED) $(PARTS)

# The types of src, of a user's code and of the code of the documents, once for the same files. A file that is gone changes its folder.
$(TYPED): $(MADE) $(READY) pyproject.toml $(USER_CODE) README.md $(wildcard docs/*.md docs/*/*.md) $(shell find src -name __pycache__ -prune -o -type d -print -o -name '*.py' -print)
	$(BIN)/python tests/support/code_of_documents.py $(DOCS_CODE)
	$(BIN)/pyright src $(USER_CODE) $(DOCS_CODE)
	touch $(TYPED)

# The tests of the parts of the page, without a browser and a server, once for the same files.
$(PARTS): $(PAGE)
	$(BIN)/python web/build.py test
	touch $(PARTS)

lint: form types

form: $(MADE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(MADE)
	$(BIN)/python tests/support/code_of_documents.py $(DOCS_CODE)
	$(BIN)/pyright
	$(BIN)/pyright $(DOCS_CODE)
	$(BIN)/mypy --strict --cache-dir build/mypy $(USER_CODE) $(DOCS_CODE)/README

suite: $(MADE) $(PAGE) $(BROWSER)
	$(BIN)/python -m pytest --processes 8 $(ARGS)

# Pictures of the screens of the page, into docs/screenshots.
screenshots: $(MADE) $(PAGE) $(BROWSER)
	$(BIN)/python -m pytest --processes 4 tests/serve/page --screenshots $(ARGS)

bench: $(MADE)
	$(BIN)/python -m bench $(ARGS)

# What grows with the number of runs, results and workers.
scale: $(MADE)
	$(BIN)/python -m bench.scale $(ARGS)

# Property tests with new examples, the full length of tests that `make test` shortens, an hour of mixed load, kills, other programs.
# Half of it waits, so three parts run side by side. What measures times comes after them, alone.
soak: $(MADE) $(PAGE) browser lint
	$(MAKE) --no-print-directory --keep-going --output-sync=target -j 3 soak-rows soak-load soak-programs
	$(BIN)/python -m bench.attacks
	$(BIN)/python -m pytest -s tests/serve/page/soak_page.py

soak-rows:
	$(BIN)/python -m pytest --processes 2 --steady -m hypothesis --hypothesis-profile=search
	$(BIN)/python -m pytest --processes 2 --steady --soak

soak-load:
	$(BIN)/python -m bench.soak $(ARGS)

soak-programs:
	$(BIN)/python -m pytest -s $(filter-out tests/serve/page/soak_page.py,$(sort $(shell find tests -name 'soak_*.py')))

# Compares the documents with the code and runs their examples.
docs: $(MADE)
	$(BIN)/python -m pytest tests/project/test_docs.py $(ARGS)

# What a release consists of, into dist/: sources, wheel, bill of materials, digests.
dist: $(MADE) $(PAGE) $(DIST_ENV)
	$(BIN)/python release/build.py $(ARGS)

$(DIST_ENV): requirements/dist.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/dist.txt
	touch $@

# The documentation as a site, into build/site/html, without a warning. It opens from disk.
site: $(SITE_ENV)
	$(dir $(SITE_ENV))bin/python site/build.py

$(SITE_ENV): requirements/site.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/site.txt
	touch $@

# Pins the requirements with hashes, without index addresses. all.txt is what `pip install openassay[all]` needs.
lock: $(READY)
	$(LOCK) --upgrade pyproject.toml --all-extras --group dev -o requirements/dev.txt
	$(LOCK) --constraint requirements/dev.txt pyproject.toml --extra store --group run -o requirements/run.txt
	$(LOCK) --constraint requirements/dev.txt pyproject.toml --all-extras -o requirements/all.txt
	$(LOCK) --group dist -o requirements/dist.txt
	$(LOCK) --group site -o requirements/site.txt

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis web/node_modules src/assay/serve/page/dist build dist
