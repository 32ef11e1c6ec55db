# Verbs of the project; `make help` lists them. `make demo` and `make test` set up everything they
# need in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# How many processes share the tests, each file to one of them: `make test WORKERS=8`.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest --durations=15 --durations-min=1
SHARED := -n $(WORKERS) --dist loadfile
# By marker, what `make test` leaves to `make slow`, but for one round trip through a real Spark.
SLOW := (spark or interop or crash or process or abuse) and not round_trip

.PHONY: help manifests manifests-check demo test slow ci check style types imports tidy process \
	interop spark upgrade crash failover failover-times simulate churn abuse bench bench-guard \
	growth spark-zip docs reference rpc pictures clean image-size sbom trace airflow

help: ## these lines
	@awk -F ':.*## ' '/^[a-z%.-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[dev,spark]"
	touch $@

demo: $(STAMP) ## a day of flights through a cluster, in one command
	$(BIN)/python examples/flights.py

test: $(STAMP) ## every component, and one round trip through Spark: some minutes
	$(PYTEST) $(SHARED) -m "not ($(SLOW))"

# An environment of its own, below build/, by the interpreter that is installed under that name.
test-on-%: ## the same on another Python, as in `make test-on-3.14`
	$(MAKE) test PYTHON=python$* VENV=build/python-$*

slow: $(STAMP) ## what `make test` leaves out: a slice of each of the slow suites below
	$(PYTEST) $(SHARED) -m "$(SLOW)"

ci: check test slow manifests-check bench-guard ## everything a change must pass

check: style types imports tidy ## lint, format, types, directions of imports, rules of the house

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

# Sizes of folders, one clock, borders that catch everything, names in documents: see the file.
tidy: $(STAMP)
	$(BIN)/python -m pytest -q tests/unit/test_tidy.py

process: $(STAMP) ## how processes start, end and talk: signals, pipes, exit codes
	$(PYTEST) $(SHARED) -m "process and not (spark or interop or crash)"

interop: $(STAMP) ## Apache's clients and its broker, whole; needs Java 17+, Maven and Go
	$(PYTEST) tests/interop tests/integration/test_spark_on_apache.py -m interop --whole-interop

console: $(STAMP) ## the console in a real browser, whole: in the dark, too; needs chromium
	$(PYTEST) $(SHARED) tests/integration -k console --whole-console

# Airflow pins much, so it has an environment of its own; what it deprecates is not for us to mend.
airflow: airflow-on-3 ## the provider under a real Airflow, which is installed below build/

airflow-on-%: ## the same on another Airflow, as in `make airflow-on-3.1`
	$(PYTHON) -m venv build/airflow-$*
	build/airflow-$*/bin/pip install --quiet --editable ".[airflow]" "apache-airflow==$*.*" \
		hypothesis pytest pytest-asyncio pytest-timeout
	build/airflow-$*/bin/python -m pytest --durations=15 tests/airflow -W default

spark: $(STAMP) ## everything on a real Spark, whole; needs Java 17+
	$(PYTEST) tests/integration tests/crash -m "spark and not interop" --whole-spark

# What an older PySpark lacks is skipped, or shown to be refused. PySpark 4.0 leaves sockets to the
# garbage collector, which warns of them.
spark-on-%: $(STAMP) ## the same on another PySpark, as in `make spark-on-4.0`
	$(BIN)/pip install --quiet --upgrade --target build/pyspark-$* "pyspark==$*.*"
	PYTHONPATH=build/pyspark-$* $(PYTEST) tests/unit/spark tests/integration \
		-m "not interop" -k spark --whole-spark -W ignore::pytest.PytestUnraisableExceptionWarning

upgrade: $(STAMP) ## this release and the one before, together: data, servers, clients, commands
	$(PYTEST) $(SHARED) tests/upgrade --whole-upgrade

crash: $(STAMP) ## kills real brokers often, and crashes simulated disks everywhere
	$(PYTEST) tests/crash --crash-rounds=25 --crash-points=all --whole-spark

RUNS ?= 200
failover: $(STAMP) ## broker sets of processes whose machines, links, disks and clocks fail
	$(PYTEST) -n 4 tests/failover -m crash --failover-runs=$(RUNS)

failover-times: $(STAMP) ## for how long a broker set takes no messages; wants a quiet machine
	PYTHONPATH=tests $(BIN)/python bench/failover.py

abuse: $(STAMP) ## what one connection can do to a broker, in a table; wants a quiet machine
	$(PYTEST) tests/abuse --whole-abuse

simulate: $(STAMP) ## broker sets whose members fail in 1,000 ways, simulated
	$(PYTEST) -n $(WORKERS) tests/simulation --simulations=1000

churn: $(STAMP) ## consumers that come, go and crash at random, for long
	$(PYTEST) tests/integration/test_churn.py --churn-rounds=50

bench: $(STAMP) ## speed of clusters and clients
	$(BIN)/pip install --quiet --editable ".[bench]"
	$(BIN)/python bench/run.py
	$(BIN)/python bench/brokers.py
	$(BIN)/python bench/clients.py
	$(BIN)/python bench/console.py

# Beside the base commit, which BASE names: `make bench-guard BASE=main~3`. Needs valgrind.
bench-guard: $(STAMP) ## fails if sends, pulls or bulk requests take more instructions
	$(BIN)/python bench/guard.py

growth: $(STAMP) ## time and memory as topics, queues and clients become many
	$(BIN)/pip install --quiet --editable ".[bench]"
	$(BIN)/python bench/growth.py

spark-zip: ## the package for spark-submit --py-files
	$(PYTHON) spark/make_zip.py dist/pocketmq-spark.zip

docs: $(STAMP) reference ## the site of docs/, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

rpc: $(STAMP) ## the messages of the gRPC service, from messaging.proto
	cd proxy/pocketmq/proxy/rpc && $(abspath $(BIN))/python -m grpc_tools.protoc -I. \
		--descriptor_set_out=messaging.binpb --pyi_out=. messaging.proto

reference: $(STAMP) ## the pages, and the blocking client, that are made from the sources
	$(BIN)/python docs/scripts/reference.py

manifests: ## deploy/kubernetes from the Helm chart; needs helm, or HELM that names it
	deploy/kubernetes/make.sh

manifests-check: $(STAMP) ## chart and manifests against Kubernetes' schemas, offline
	$(BIN)/pip install --quiet --editable ".[deploy-test]"
	$(PYTEST) tests/integration/test_kubernetes.py

# The same files as deploy/Dockerfile.small copies; needs Debian's apt, and its python3.
image-size: $(STAMP) ## what the small image holds, made without Docker: fails above 200 MB
	PIP="$(abspath $(BIN))/python -m pip" deploy/image-size.sh

sbom: $(STAMP) ## the bill of materials of the image's Python, CycloneDX: dist/pocketmq.cdx.json
	mkdir -p dist
	rm -rf build/sbom
	PIP="$(abspath $(BIN))/python -m pip" PYTHON=$(abspath $(BIN))/python deploy/install.sh build/sbom ".[control,etcd]"
	CYCLONEDX=$(BIN)/cyclonedx-py deploy/sbom.sh build/sbom/bin/python dist/pocketmq.cdx.json

pictures: $(STAMP) ## the pictures of the README and the site; needs the ports of `pocketmq up`
	$(BIN)/python docs/scripts/pictures.py

trace: $(STAMP) ## records the trace in the docs anew, before make pictures; needs Java 17+ and Maven
	PYTHONPATH=tests $(BIN)/python docs/scripts/record_trace.py

clean: ## removes what all these made
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache
