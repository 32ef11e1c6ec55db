"""Bodies by schemas on a real Spark: loaded, exported, read with and without a jar."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.commands.here import Command, here
from support.interop import maven
from support.peers.schema_registry import Registry, schema_registry
from support.spark.parts import read, read_rows, write

from pocketmq.schemas import (
    Deserializer,
    IncompatibleSchemaError,
    RegistrySettings,
    Schema,
    SchemaRegistry,
    Serializer,
)
from pocketmq.spark import (
    ExportOptions,
    IngestOptions,
    JobError,
    OptionError,
    ReplayOptions,
    decoded,
    encoded,
    export,
    ingest,
    reading_schema,
    replay,
    writing_schema,
)

pyspark = pytest.importorskip("pyspark")
sf = pytest.importorskip("pyspark.sql.functions")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
__all__ = ["here"]


def avro(*fields: Any) -> str:
    named = [{"name": name, "type": kind, **more} for name, kind, more in fields]
    return json.dumps({"type": "record", "name": "shop.Order", "fields": named})


ORDER = avro(
    ("id", "long", {}),
    ("total", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, {}),
    ("placed", {"type": "long", "logicalType": "timestamp-micros"}, {}),
    ("note", ["null", "string"], {"default": None}),
)
NEWER = avro(("id", "long", {}), ("channel", "string", {"default": "web"}))
BROKEN = avro(("id", "long", {}), ("channel", "string", {}))
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message Empty {}
message Order {
  enum Channel { WEB = 0; SHOP = 1; }
  message Line { string sku = 1; }
  uint64 id = 1;
  Channel channel = 2;
  repeated Line lines = 3;
  map<string, int32> counts = 4;
  google.protobuf.Timestamp placed = 5;
  google.protobuf.Duration took = 6;
  optional string note = 7;
  bytes seal = 8;
}
"""
PLACED = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
CSV = "id,total,placed,note\n1,12.50,2026-01-31T12:00:00.123456Z,hi\n2,0.25,2026-01-31T12:00:00Z,\n"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with schema_registry() as server:
        yield server


def client(registry: Registry) -> SchemaRegistry:
    return SchemaRegistry(RegistrySettings(url=registry.url))


def file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_files_become_bodies_by_a_schema_and_bodies_columns(
    spark: Any, spark_namesrv: str, registry: Registry, tmp_path: Path
) -> None:
    source = file(tmp_path / "orders.csv", CSV)
    options = IngestOptions(
        source,
        "AvroOrders",
        namesrv=spark_namesrv,
        key="id",
        schema=file(tmp_path / "order.avsc", ORDER),
        schema_registry=registry.url,
    )
    assert ingest(options, spark).rows == 2
    reading = Deserializer(client(registry))
    rows = sorted(read_rows(spark_namesrv, "AvroOrders"), key=lambda row: row["keys"])
    assert [reading.decode(row["value"]) for row in rows] == [
        {"id": 1, "total": Decimal("12.50"), "placed": PLACED, "note": "hi"},
        {"id": 2, "total": Decimal("0.25"), "placed": PLACED.replace(microsecond=0), "note": None},
    ]

    broken = file(tmp_path / "broken.avsc", BROKEN)
    with pytest.raises(IncompatibleSchemaError, match=r"AvroOrders-value holds: .*at /channel"):
        ingest(IngestOptions(**{**vars(options), "schema": broken}), spark)
    assert len(read_rows(spark_namesrv, "AvroOrders")) == 2

    target = tmp_path / "out"
    exporting = ExportOptions(
        "AvroOrders",
        str(target),
        namesrv=spark_namesrv,
        subject="AvroOrders-value",
        schema_registry=registry.url,
    )
    assert export(exporting, spark).rows == 2
    totals = spark.read.parquet(str(target)).select("value.id", "value.total", "keys")
    assert sorted(map(tuple, totals.collect())) == [
        (1, Decimal("12.50"), "1"),
        (2, Decimal("0.25"), "2"),
    ]


@pytest.mark.whole_spark
@pytest.mark.parametrize(
    ("topic", "schema", "value"),
    [("Replayed", NEWER, None), ("ReplayedText", '{"type": "string"}', "channel")],
)
def test_a_replay_refuses_an_export_by_a_schema(
    spark: Any, spark_namesrv: str, registry: Registry, tmp_path: Path,
    topic: str, schema: str, value: str | None,
) -> None:  # fmt: skip
    there: dict[str, Any] = {"namesrv": spark_namesrv, "schema_registry": registry.url}
    subject, again, target = f"{topic}-value", f"{topic}Again", str(tmp_path / "out")
    source = file(tmp_path / "orders.csv", "id,channel\n1,web\n2,shop\n")
    by = file(tmp_path / "order.avsc", schema)
    loading = IngestOptions(source, topic, key="id", value=value, schema=by, **there)
    assert ingest(loading, spark).rows == 2
    export(ExportOptions(topic, target, subject=subject, **there), spark)

    def replayed(source: str, **changes: Any) -> int:
        options = ReplayOptions(
            source, topic=again, namesrv=spark_namesrv, checkpoint=str(tmp_path / "checkpoint"),
            **changes,
        )  # fmt: skip
        return replay(options, spark).rows

    told = rf"exported by a schema \({subject}\).*pocketmq ingest.*--set 'value="
    with pytest.raises(OptionError, match=told):
        replayed(target)
    with pytest.raises(OptionError, match=told):
        replayed(target, dry_run=True)
    # What the error names helps.
    encoding = IngestOptions(
        target, again, format="parquet", value="value", key="keys", subject=subject, **there
    )
    assert ingest(encoding, spark).rows == 2
    bodies = sorted(row["value"] for row in read_rows(spark_namesrv, topic))
    assert sorted(row["value"] for row in read_rows(spark_namesrv, again)) == bodies
    assert replayed(target, columns={"value": "'edited'"}) == 2
    if value is None:  # a part of an export has no ledger that tells the schema
        part = next(Path(target).rglob("*.parquet")).parent
        with pytest.raises(OptionError, match=r"by a schema: .*value is a struct<id:bigint"):
            replayed(str(part))


def test_bodies_of_several_schemas_are_one_column(
    spark: Any, spark_namesrv: str, registry: Registry, tmp_path: Path
) -> None:
    serializers = [
        Serializer.registered(client(registry), "Evolves-value", Schema(text))
        for text in (avro(("id", "long", {})), NEWER)
    ]
    rows = spark.createDataFrame(
        [(serializers[0].encode({"id": 1}),), (serializers[1].encode({"id": 2, "channel": "a"}),)],
        "value binary",
    )
    write(rows, spark_namesrv, "Evolves", createTopicQueues="1")
    by = reading_schema(registry=registry.url, subject="Evolves-value")
    messages = read(spark, spark_namesrv, "Evolves")
    found = decoded(messages, by).select("value.*").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, "web"), (2, "a")]
    older = reading_schema(
        file(tmp_path / "a.avsc", avro(("id", "double", {}))), registry=registry.url
    )
    assert decoded(messages, older).selectExpr("sum(value.id)").collect()[0][0] == 3.0


@pytest.mark.whole_spark
def test_protobuf_becomes_columns_and_comes_of_them(
    spark: Any, spark_namesrv: str, registry: Registry, tmp_path: Path
) -> None:
    path = file(tmp_path / "shop.proto", PROTO)
    by = writing_schema(f"{path}:shop.Order", registry=registry.url, subject="P-value")
    rows = spark.sql(
        "select named_struct('id', 7, 'channel', 'SHOP', 'lines', array(named_struct('sku', 'a')), "
        "'counts', map('a', 1), 'placed', timestamp'2026-01-31 12:00:00.123456', "
        "'took', interval 90 seconds, 'seal', x'00ff') as value"
    )
    write(encoded(rows, by), spark_namesrv, "P", createTopicQueues="1")
    (row,) = read_rows(spark_namesrv, "P")
    value = Deserializer(client(registry)).decode(row["value"])
    assert value == {
        "id": 7,
        "channel": "SHOP",
        "lines": [{"sku": "a"}],
        "counts": {"a": 1},
        "placed": PLACED,
        "took": timedelta(seconds=90),
        "seal": b"\x00\xff",
    }
    reading = reading_schema(f"{path}:shop.Order", registry=registry.url)
    found = decoded(read(spark, spark_namesrv, "P"), reading).select("value.*").collect()[0]
    assert (found.id, found.channel, found.lines[0].sku, found.counts) == (7, "SHOP", "a", {"a": 1})
    assert (found.took, found.note, bytes(found.seal)) == (timedelta(seconds=90), None, b"\x00\xff")


@pytest.mark.whole_spark
def test_bodies_without_a_frame_need_no_registry(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    schema = file(
        tmp_path / "day.avsc",
        avro(
            ("day", {"type": "int", "logicalType": "date"}, {}),
            ("code", {"type": "string", "logicalType": "uuid"}, {}),
            ("at", {"type": "int", "logicalType": "time-millis"}, {}),
        ),
    )
    code = "12345678-1234-5678-1234-567812345678"
    serializer = Serializer(Schema(Path(schema).read_text()))
    body = serializer.encode({"day": date(2026, 1, 31), "code": code, "at": 1000})
    rows = spark.createDataFrame([(body,)], "value binary")
    write(rows, spark_namesrv, "NoFrame", createTopicQueues="1")
    found = decoded(read(spark, spark_namesrv, "NoFrame"), reading_schema(schema))
    assert tuple(found.select("value.*").collect()[0]) == (date(2026, 1, 31), code, "00:00:01")


@pytest.mark.whole_spark
def test_what_does_not_fit_is_told_or_kept(
    spark: Any, spark_namesrv: str, registry: Registry, tmp_path: Path
) -> None:
    good = Serializer.registered(client(registry), "Mixed-value", Schema(NEWER))
    bodies = [good.encode({"id": 1, "channel": "a"}), b"text", b"\0\0\0\0\x63x"]
    rows = spark.createDataFrame([(body,) for body in bodies], "value binary")
    write(rows.coalesce(1), spark_namesrv, "Mixed", createTopicQueues="1")
    options = ExportOptions(
        "Mixed",
        str(tmp_path / "out"),
        namesrv=spark_namesrv,
        subject="Mixed-value",
        schema_registry=registry.url,
    )
    with pytest.raises(JobError, match=r"topic Mixed .* queueOffset \d cannot be decoded"):
        export(options, spark)
    keeping = ExportOptions(**{**vars(options), "keep_undecoded": True})
    assert export(keeping, spark).rows == 3
    rows = spark.read.parquet(str(tmp_path / "out")).select("value.id", "rawValue").collect()
    found = {(row.id, row.rawValue and bytes(row.rawValue)) for row in rows}
    assert found == {(1, None), (None, bodies[1]), (None, bodies[2])}

    text = ExportOptions(**{**vars(keeping), "format": "csv", "to_dir": str(tmp_path / "csv")})
    assert export(text, spark).rows == 3
    lines = spark.read.option("header", "true").csv(str(tmp_path / "csv"))
    shown = {(row.value, row.rawValue) for row in lines.select("value", "rawValue").collect()}
    kept = {(None, base64.b64encode(body).decode()) for body in bodies[1:]}
    assert shown == {('{"id":1,"channel":"a"}', None), *kept}

    nulls = file(tmp_path / "nulls.csv", "id,channel\n1,\n")
    loading = IngestOptions(
        nulls,
        "Mixed",
        namesrv=spark_namesrv,
        schema=file(tmp_path / "o.avsc", NEWER),
    )
    with pytest.raises(JobError, match=r"does not fit the schema: .*channel"):
        ingest(loading, spark)
    more = file(tmp_path / "more.csv", "id,channel,colour\n1,a,red\n")
    with pytest.raises(OptionError, match="no field 'colour'"):
        ingest(IngestOptions(**{**vars(loading), "source": more}), spark)
    with pytest.raises(OptionError, match="neither a schema nor a subject"):
        ingest(
            IngestOptions(**{**vars(loading), "schema": None, "schema_registry": "http://a"}), spark
        )


@pytest.mark.whole_spark
def test_a_dry_run_asks_the_registry_and_changes_nothing(
    spark: Any, spark_namesrv: str, registry: Registry, tmp_path: Path, here: Command
) -> None:
    source = file(tmp_path / "o.csv", "id,channel\n1,a\n")
    schema = file(tmp_path / "o.avsc", NEWER)
    words = ("ingest", source, "--topic", "Dry", "--schema", schema, "--namesrv", spark_namesrv)
    code, _, errors = here(*words, "--schema-registry", registry.url, "--dry-run")
    assert (code, errors) == (0, "1 row would be loaded into topic Dry")
    client(registry).register("Dry-value", Schema(avro(("channel", "long", {}))))
    code, _, errors = here(*words, "--schema-registry", registry.url, "--dry-run")
    assert code == 1
    assert "is not compatible with what subject Dry-value holds" in errors
    assert client(registry).latest("Dry-value").version == 1


# -- by Spark's own functions -------------------------------------------------------------------

JAR_VERSIONS = (pyspark.__version__, "4.2.0")
"""Of spark-avro: Spark's own, or one that works with it where that is not out yet."""


@pytest.fixture
def avro_jar(tmp_path: Path) -> Path:
    """Spark's jar for Avro, from Maven's repository."""
    if reason := maven.missing_tools():
        pytest.skip(reason)
    said = ""
    for version in JAR_VERSIONS:
        artifact = f"org.apache.spark:spark-avro_2.13:{version}"
        goal = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={tmp_path}")
        done = subprocess.run(
            ["mvn", "-q", "-B", *goal], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return tmp_path / f"spark-avro_2.13-{version}.jar"
        said = done.stdout
    pytest.fail(f"Maven does not get spark-avro: {said[-1000:]}")


@pytest.mark.whole_spark
@pytest.mark.interop
def test_sparks_own_function_reads_what_follows_the_frame(
    spark: Any, spark_namesrv: str, registry: Registry, avro_jar: Path
) -> None:
    from pyspark.sql.avro.functions import from_avro

    serializer = Serializer.registered(client(registry), "Own-value", Schema(NEWER))
    rows = spark.createDataFrame([(serializer.encode({"id": 7, "channel": "a"}),)], "value binary")
    write(rows, spark_namesrv, "Own", createTopicQueues="1")
    spark.sql(f"ADD JAR {avro_jar}")
    schema_id = sf.expr("cast(conv(hex(substring(value, 2, 4)), 16, 10) as int)")
    framed = read(spark, spark_namesrv, "Own").withColumn("schemaId", schema_id)
    payload = sf.expr("substring(value, 6)")
    orders = framed.select("schemaId", from_avro(payload, NEWER).alias("order"))
    (found,) = orders.select("schemaId", "order.*").collect()
    assert tuple(found) == (serializer.schema_id, 7, "a")
