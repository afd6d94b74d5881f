# `make help` lists the targets. Needs Python 3.11 and make; `make test` reports what else is missing.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check
# Print a line per package, because the first installation takes minutes.
PIP_SHOWN = $(BIN)/python -u -m pip install --progress-bar off --disable-pip-version-check $(1) | awk '/^Collecting / {print "  " $$2; fflush()} /^Installing / {print "  unpacking"; fflush()}'
# uv installs in seconds what takes pip a minute of processor time; pip knows mirrors that uv is not configured for.
UV_OR_PIP = $(PIP_INSTALL) $$(sed -n 's/^\(uv==[0-9.]*\).*/\1/p' $(1)) && $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1) \
	|| { echo "  uv cannot install them; using pip"; $(call PIP_SHOWN,-r $(1)); }
UV_COMPILE := $(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --python-version 3.11 --python-platform linux
# One more than the cores of a small machine, because tests wait half of the time. WORKERS=0 runs one process (for a debugger); ARGS is
# passed to pytest: make unit ARGS='-k zip'
WORKERS ?= 3
ARGS ?=
# The environment's bin folder may hold Node.js, see tests/install_services.sh.
# Without bytecode, each worker would compile all tests again.
PYTEST = PATH="$(CURDIR)/$(BIN):$$PATH" env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(ARGS)
COLLECT = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 0 --collect-only -qq tests

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- environment -------------------------------------------------------------------------------------------------------------

$(BIN)/python:
	@echo "Creating $(VENV)"
	@bash .ci/release/make_venv.sh "$(PYTHON)" "$(VENV)"

$(VENV)/.run-stamp: requirements.txt | $(BIN)/python
	@echo "Installing the packages of requirements.txt into $(VENV): a minute or two the first time"
	@$(call PIP_SHOWN,-r requirements.txt)
	@touch $@

$(VENV)/.release-stamp: .ci/release/requirements.txt | $(VENV)/.run-stamp
	@echo "Installing what builds dist/sless.pyz"
	@$(call PIP_SHOWN,-r .ci/release/requirements.txt)
	@touch $@

$(VENV)/.dev-stamp: tests/requirements.txt | $(BIN)/python
	@echo "Installing what tests and checks need"
	@$(call UV_OR_PIP,tests/requirements.txt)
	@touch $@

.PHONY: venv
venv: $(VENV)/.run-stamp $(VENV)/.dev-stamp ## create .venv for sless, its tests and checks

.PHONY: lock
lock: ## recompile the locks from pyproject.toml, .ci/release/ and tests/requirements.in (UPGRADE=1: newest versions)
	@test -x $(BIN)/uv || { test -x $(BIN)/python || bash .ci/release/make_venv.sh "$(PYTHON)" "$(VENV)"; $(PIP_INSTALL) uv; }
	$(UV_COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --extra server -o requirements.txt
	$(UV_COMPILE) $(if $(UPGRADE),--upgrade) .ci/release/requirements.in -o .ci/release/requirements.txt
	$(UV_COMPILE) $(if $(UPGRADE),--upgrade) tests/requirements.in -o tests/requirements.txt
	$(UV_COMPILE) $(if $(UPGRADE),--upgrade) -c tests/requirements.txt .ci/release/provider.in -o .ci/release/provider.txt
	$(UV_COMPILE) $(if $(UPGRADE),--upgrade) tests/node.in -o tests/node.txt
	@rm -rf sless.egg-info

# ---- the product -------------------------------------------------------------------------------------------------------------

SOURCES = $(shell find sless static runtimes examples -type f -not -path '*/__pycache__/*' -not -path '*/node_modules/*')

EDITOR_SOURCES := $(addprefix .ci/release/editor/,build.sh editor.js package.json package-lock.json)

build/editor-stamp: $(EDITOR_SOURCES)
	@mkdir -p build
	@if ! command -v npm >/dev/null; then echo "Without npm the console's editor is a plain text field: install npm, then make editor"; \
	elif ! bash .ci/release/editor/build.sh static/console/editor; then echo "The console's editor is a plain text field: npm failed, see above"; fi
	@touch $@

.PHONY: editor
editor: ## bundle CodeMirror for the console (needs npm); without it the console has a plain text field
	@rm -f build/editor-stamp
	@$(MAKE) --no-print-directory build/editor-stamp

dist/sless.pyz: $(VENV)/.release-stamp build/editor-stamp requirements.txt pyproject.toml .ci/release/build_zipapp.py .ci/release/zipapp_main.py $(SOURCES)
	@echo "Building $@: half a minute"
	@$(BIN)/python .ci/release/build_zipapp.py --output $@

.PHONY: pyz
pyz: dist/sless.pyz ## build dist/sless.pyz, one file that needs only Python 3.11

.PHONY: provider
provider: $(VENV)/.dev-stamp ## build dist/terraform-provider-sless_v<version>, the Terraform provider in one file; `sless terraform install` installs it
	@$(BIN)/python .ci/release/build_provider.py

.PHONY: provider-docs
provider-docs: $(VENV)/.dev-stamp ## write docs/, the provider's documentation, from its schema
	@$(BIN)/python -m sless.terraform.docs docs

.PHONY: demo
demo: dist/sless.pyz ## build and start sless, deploy and call the examples; Ctrl-C stops it
	@exec $(PYTHON) dist/sless.pyz $(if $(ARGS),demo $(ARGS))

# ---- checks ------------------------------------------------------------------------------------------------------------------

.PHONY: lint
lint: $(VENV)/.dev-stamp ## check lint rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: $(VENV)/.dev-stamp ## run mypy, strict for some packages
	$(BIN)/mypy

.PHONY: check
check: lint types test-deps ## run before a commit: lint, types, architecture, unit tests and the contract tests that start nothing
	$(PYTEST) -m 'not slow' tests/test_architecture.py tests/unit tests/contract

.PHONY: format
format: $(VENV)/.dev-stamp ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: architecture
architecture: $(VENV)/.dev-stamp ## check import table, sizes and charters
	$(BIN)/python -m pytest -n 0 $(ARGS) tests/test_architecture.py

.PHONY: unit
unit: $(VENV)/.dev-stamp ## test rules and small parts, without a server
	$(PYTEST) tests/unit tests/test_architecture.py

.PHONY: contract
contract: $(VENV)/.dev-stamp test-deps ## run one suite per protocol over each implementation
	$(PYTEST) tests/contract

.PHONY: test
test: $(VENV)/.dev-stamp test-deps build/editor-stamp ## run every test; installs and starts what they need
	$(PYTEST) tests

.PHONY: quick
quick: $(VENV)/.dev-stamp ## run every test but the slow ones
	$(PYTEST) -m 'not slow' tests

.PHONY: soak
soak: $(VENV)/.dev-stamp test-deps ## run long forms of tests: 110,000 messages, 1,000 calls, replicas for 12 minutes, 200 functions, the API away, more made-up requests
	TEST_SOAK_MESSAGES=10000 $(PYTEST) --timeout 1200 tests/integration/test_events_soak.py tests/integration/test_schemathesis.py tests/integration/test_unchanged_handlers.py \
		tests/integration/test_async.py::test_all_accepted_calls_finish_after_kill_9_of_everything \
		tests/contract/test_kubernetes_faults.py::test_many_functions_cost_no_more_calls_than_one \
		tests/integration/test_replicas.py tests/integration/test_kube_away.py tests/integration/test_server.py tests/integration/test_package.py tests/integration/test_bounds.py tests/integration/test_bench.py \
		tests/unit/code/test_intake.py::test_far_too_many_entries tests/unit/http/test_request_budget.py tests/integration/test_bad_input_code.py tests/contract/test_rest_*.py tests/contract/test_builder_go_again.py tests/conformance/test_runtime.py tests/e2e/test_demo.py tests/terraform/test_existing_configurations.py
	FUZZ_SECONDS=600 $(PYTEST) --timeout 1200 tests/integration/test_fuzz.py

.PHONY: audit
audit: $(VENV)/.dev-stamp ## list known vulnerabilities of the locked packages with pip-audit; needs PyPI
	$(BIN)/uv tool run pip-audit --disable-pip --requirement requirements.txt

.PHONY: marathon
MINUTES ?= 2
marathon: $(VENV)/.dev-stamp test-deps ## start PostgreSQL and a server, apply examples/postgres, then try to break it for MINUTES
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.marathon --minutes $(MINUTES)

.PHONY: test-kube
test-kube: $(VENV)/.dev-stamp ## run the cluster suites on the cluster of SLESS_TEST_KUBECONFIG, see CONTRIBUTING.md
	@test -n "$${SLESS_TEST_KUBECONFIG:-}" || { echo "SLESS_TEST_KUBECONFIG: expected the path of a kubeconfig, found nothing; see CONTRIBUTING.md" >&2; exit 2; }
	$(PYTEST) --timeout 900 -k cluster tests/contract/test_backend.py tests/contract/test_builder.py tests/integration/test_real_cluster.py

.PHONY: test-deps
test-deps: $(VENV)/.dev-stamp ## install the services that tests use, or say what to install
# In a new clone, pytest compiles the tests meanwhile: otherwise each worker would, in 20 s of processor time.
	@trap wait EXIT; \
	[ -d tests/__pycache__ ] || $(COLLECT) > /dev/null 2>&1 & \
	bash tests/install_services.sh $(VENV); \
	GOCACHE="$${GOCACHE:-$(CURDIR)/build/go-cache}" $(BIN)/python -m tests.conformance.go_programs

.PHONY: bench
bench: $(VENV)/.dev-stamp ## compare speed, memory and size with other servers
	$(BIN)/python -m tests.bench $(ARGS)

.PHONY: clean
clean: ## remove .venv, dist and caches
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
