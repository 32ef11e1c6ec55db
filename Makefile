# Verbs of the project. `make demo` and `make test` set up everything they need in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check style types imports interop spark crash churn bench growth spark-zip docs reference clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[dev,spark]"
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/flights.py

test: $(STAMP)
	$(BIN)/python -m pytest

check: style types imports

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

interop: $(STAMP)
	$(BIN)/python -m pytest tests/interop tests/integration/test_spark_on_apache.py -m interop --whole-interop

spark: $(STAMP)
	$(BIN)/python -m pytest tests/integration tests/crash -m "spark and not interop" --whole-spark

# On an older PySpark, as in `make spark-on-4.0`; what it lacks is skipped, or shown to be refused.
# PySpark 4.0 leaves sockets to the garbage collector, which warns of them.
spark-on-%: $(STAMP)
	$(BIN)/pip install --quiet --upgrade --target build/pyspark-$* "pyspark==$*.*"
	PYTHONPATH=build/pyspark-$* $(BIN)/python -m pytest tests/unit/spark tests/integration \
		-m "not interop" -k spark --whole-spark -W ignore::pytest.PytestUnraisableExceptionWarning

crash: $(STAMP)
	$(BIN)/python -m pytest tests/crash --crash-rounds=25 --crash-points=all --whole-spark

churn: $(STAMP)
	$(BIN)/python -m pytest tests/integration/test_churn.py --churn-rounds=50

bench: $(STAMP)
	$(BIN)/python bench/run.py

growth: $(STAMP)
	$(BIN)/pip install --quiet --editable ".[bench]"
	$(BIN)/python bench/growth.py

spark-zip:
	$(PYTHON) spark/make_zip.py dist/pocketmq-spark.zip

docs: $(STAMP) reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

reference: $(STAMP)
	$(BIN)/python docs/scripts/reference.py

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache
