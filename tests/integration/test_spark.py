"""Real Spark against real clusters: what is written is there, in order, and failures say why."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.interop.apache_servers import free_broker_port
from support.spark.parts import Rows, Servers, failure, read, write

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.producers.selectors import by_hash
from pocketmq.protocol.messages.message import Message
from pocketmq.runtime.process import run
from pocketmq.spark import (
    ExportOptions,
    IngestOptions,
    JobError,
    OptionError,
    export,
    ingest,
    register,
)
from pocketmq.spark.jobs.progress import TopicGrowth
from pocketmq.spark.topics import queues_to_write

pyspark = pytest.importorskip("pyspark")
sf = pytest.importorskip("pyspark.sql.functions")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

# -- writing and reading ------------------------------------------------------------------------


@pytest.mark.round_trip
def test_what_is_written_is_read(spark: Any, spark_namesrv: str) -> None:
    rows = spark.range(5000).select(
        sf.concat(sf.lit("välue "), "id").alias("value"),
        sf.concat(sf.lit("k"), "id").alias("key"),
        sf.when(sf.col("id") % 2 == 0, "even").alias("tags"),
        sf.create_map(sf.lit("origin"), sf.lit("spark")).alias("properties"),
    )
    write(rows, spark_namesrv, "RoundTrip")
    found: Rows = read(spark, spark_namesrv, "RoundTrip").collect()

    assert sorted(r.value.decode() for r in found) == sorted(f"välue {i}" for i in range(5000))
    for row in found:
        number = int(row.value.decode().split()[1])
        assert row.topic == "RoundTrip"
        assert row["keys"] == f"k{number}"
        assert row.tags == ("even" if number % 2 == 0 else None)
        assert row.properties["origin"] == "spark"
        assert row.properties["UNIQ_KEY"] == row.msgId
        assert row.reconsumeTimes == 0
        assert row.bornTimestamp <= row.storeTimestamp
    assert len({r.msgId for r in found}) == 5000

    by_queue = Counter((r.brokerName, r.queueId) for r in found)
    assert set(by_queue) == {(b, q) for b in ("broker-a", "broker-b") for q in range(4)}
    assert max(by_queue.values()) - min(by_queue.values()) <= 8, "rows in turn spread evenly"
    for place in by_queue:
        offsets = [r.queueOffset for r in found if (r.brokerName, r.queueId) == place]
        assert sorted(offsets) == list(range(len(offsets)))


@pytest.mark.whole_spark
def test_rows_of_a_sharding_key_go_where_other_producers_send_them(
    spark: Any, spark_namesrv: str
) -> None:
    rows = spark.range(1000).selectExpr(
        "cast(id as string) value", "concat('schlüssel ', id % 37) shardingKey"
    )
    write(rows, spark_namesrv, "Sharded")

    async def queues_of_topic() -> Any:
        async with ClientInstance(spark_namesrv) as instance:
            return await queues_to_write(instance, "Sharded", 0)

    queues = run(queues_of_topic())
    found: Rows = read(spark, spark_namesrv, "Sharded").collect()
    assert len(found) == 1000
    for row in found:
        key = row.properties["__SHARDINGKEY"]
        queue = by_hash(queues, Message("Sharded", b"x"), key)
        assert (row.brokerName, row.queueId) == (queue.broker_name, queue.queue_id)


def test_rows_can_name_their_queue(spark: Any, spark_namesrv: str) -> None:
    rows = spark.range(100).selectExpr(
        "cast(id as string) value",
        "cast(id % 4 as int) queueId",
        "if(id % 3 = 0, 'broker-a', 'broker-b') brokerName",
    )
    write(rows, spark_namesrv, "Named")
    for row in read(spark, spark_namesrv, "Named").collect():
        number = int(row.value)
        assert row.queueId == number % 4
        assert row.brokerName == ("broker-a" if number % 3 == 0 else "broker-b")
    assert "beside 'queueId'" in failure(rows.drop("brokerName"), spark_namesrv, "Named")
    wrong = rows.withColumn("queueId", sf.lit(9))
    assert "no writable queue 9" in failure(wrong, spark_namesrv, "Named")


def test_what_was_read_can_be_written_to_another_topic(spark: Any, spark_namesrv: str) -> None:
    first = spark.range(50).selectExpr(
        "cast(id as string) value", "'k' key", "'t' tags", "map('a', 'b') properties"
    )
    write(first, spark_namesrv, "Origin")
    copied = read(spark, spark_namesrv, "Origin").select("value", "keys", "tags", "properties")
    write(copied, spark_namesrv, "Copy")
    found: Rows = read(spark, spark_namesrv, "Copy").collect()
    assert sorted(int(r.value) for r in found) == list(range(50))
    assert {(r["keys"], r.tags, r.properties["a"]) for r in found} == {("k", "t", "b")}
    origin = {r.msgId for r in read(spark, spark_namesrv, "Origin").collect()}
    assert not origin & {r.msgId for r in found}


def test_the_jvm_collects_garbage_while_the_job_rests(spark: Any) -> None:
    beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    assert {bean.getName() for bean in beans} == {"PS Scavenge", "PS MarkSweep"}


def test_offsets_and_tasks_of_a_read(spark: Any, spark_namesrv: str) -> None:
    rows = spark.range(400).selectExpr(
        "cast(id as string) value", "0 queueId", "'broker-a' brokerName"
    )
    write(rows.coalesce(1), spark_namesrv, "Offsets")
    table = json.dumps({"Offsets": {"broker-a": {"0": 100}}})
    end = json.dumps({"Offsets": {"broker-a": {"0": 300}}})
    part = read(spark, spark_namesrv, "Offsets", startingOffsets=table, endingOffsets=end)
    assert sorted(int(r.value) for r in part.collect()) == list(range(100, 300))
    split = read(spark, spark_namesrv, "Offsets", minPartitions="7")
    assert split.rdd.getNumPartitions() == 7
    assert sorted(int(r.value) for r in split.collect()) == list(range(400))

    beyond = json.dumps({"Offsets": {"broker-a": {"0": 500}}})
    lost = read(spark, spark_namesrv, "Offsets", endingOffsets=beyond)
    with pytest.raises(pyspark.errors.PySparkException) as caught:
        lost.count()
    assert "offsets 0 to 500 were to be read, the broker holds 0 to 400" in str(caught.value)
    kept = read(spark, spark_namesrv, "Offsets", endingOffsets=beyond, failOnDataLoss="false")
    assert kept.count() == 400


def test_several_topics_and_no_properties(spark: Any, spark_namesrv: str) -> None:
    for topic in ("One", "Two"):
        write(spark.range(10).selectExpr("cast(id as string) value"), spark_namesrv, topic)
    both = read(spark, spark_namesrv, "One,Two", includeProperties="false")
    assert "properties" not in both.columns
    assert Counter(r.topic for r in both.collect()) == {"One": 10, "Two": 10}


def test_conditions_of_one_query_do_not_reach_another(spark: Any, spark_namesrv: str) -> None:
    # Where PySpark pushes conditions, it keeps what they left for all queries of the same load.
    rows = spark.range(800).selectExpr("cast(id as string) value", "if(id < 10, 'a', 'b') tags")
    write(rows, spark_namesrv, "Queries")
    found = read(spark, spark_namesrv, "Queries")
    assert found.where("queueId = 1").count() < 800
    assert found.where("tags = 'a'").count() == 10
    assert found.count() == 800
    parts = found.where("queueId < 2").union(found.where("queueId >= 2"))
    assert parts.select("value").distinct().count() == 800


def test_each_session_of_an_application_can_have_the_format(spark: Any) -> None:
    other = spark.newSession()
    try:
        for session in (other, other, spark, other, spark.newSession()):
            register(session)
        assert read(other, "127.0.0.1:9", "None").columns[0] == "topic"
    finally:
        register(spark)


def test_an_empty_frame_and_an_empty_topic(spark: Any, spark_namesrv: str) -> None:
    write(spark.range(0).selectExpr("cast(id as string) value"), spark_namesrv, "Empty")
    assert read(spark, spark_namesrv, "Empty").count() == 0


def test_values_near_the_limit(spark: Any, spark_namesrv: str) -> None:
    size = 4 * 1024 * 1024
    rows = spark.range(3).selectExpr(f"repeat(cast(id as string), {size}) value")
    write(rows, spark_namesrv, "Large")
    found: Rows = read(spark, spark_namesrv, "Large").selectExpr("length(value) size").collect()
    assert [r["size"] for r in found] == [size] * 3


# -- what is refused ----------------------------------------------------------------------------


def test_mistakes_are_told_before_the_job_starts(spark: Any, spark_namesrv: str) -> None:
    rows = spark.range(3).selectExpr("cast(id as string) value")
    assert "topic Nowhere does not exist" in failure(
        rows, spark_namesrv, "Nowhere", createTopicQueues="0"
    )
    said = failure(rows, spark_namesrv, "T", batchByte="1")
    assert "did you mean 'batchBytes'" in said
    assert "Traceback" not in said
    assert "no column 'value'" in failure(
        rows.withColumnRenamed("value", "key"), spark_namesrv, "T"
    )
    assert "of type bigint" in failure(
        spark.range(3).withColumnRenamed("id", "value"), spark_namesrv, "T"
    )
    assert "no name server can be reached" in failure(rows, "127.0.0.1:1", "T")
    assert "routing=key needs" in failure(rows, spark_namesrv, "T", routing="key")
    with pytest.raises(pyspark.errors.PySparkException, match="cannot be overwritten"):
        rows.write.format("pocketmq").options(namesrvAddr=spark_namesrv, topic="T").mode(
            "overwrite"
        ).save()


def test_a_failed_task_fails_the_job_with_its_reason(spark: Any, spark_namesrv: str) -> None:
    nulls = spark.range(3).selectExpr("if(id = 1, null, 'x') value")
    said = failure(nulls, spark_namesrv, "Failed")
    assert "its value is null" in said
    assert "Traceback" not in said
    large = spark.range(1).selectExpr("repeat('x', 4194305) value")
    assert "the limit is 4194304" in failure(large, spark_namesrv, "Failed")
    # The broker's own refusal: here the row passes the writer's limit.
    limits = {"maxMessageSize": "8000000", "retryTimesWhenSendFailed": "0"}
    assert "from 127.0.0.1:" in failure(large, spark_namesrv, "Failed", **limits)


# -- jobs ---------------------------------------------------------------------------------------


def flights(rows: int) -> list[dict[str, object]]:
    return [
        {"id": i, "carrier": f"C{i * i % 13}", "delay": None if i % 5 == 0 else i / 4}
        for i in range(rows)
    ]


def test_ingest_keeps_the_order_of_each_key(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    # Several files of several sizes, so that Spark reads them in another order than their names'.
    rows = flights(6000)
    bounds = [0, 100, 3000, 3001, 6000]
    for number, (first, last) in enumerate(itertools.pairwise(bounds)):
        lines = [json.dumps(row) for row in rows[first:last]]
        (tmp_path / f"part-{number}.json").write_text("\n".join(lines))
    report = ingest(
        IngestOptions(
            str(tmp_path / "*.json"),
            "Flights",
            namesrv=spark_namesrv,
            key="carrier",
            sharding_key="carrier",
            create_topic_queues=4,
        ),
        spark,
    )
    assert report.rows == 6000
    found: Rows = read(spark, spark_namesrv, "Flights").collect()
    placed: Counter[str] = Counter(f"{r.brokerName}:{r.queueId}" for r in found)
    assert dict(report.rows_by_queue) == dict(placed)

    found.sort(key=lambda r: (r.brokerName, r.queueId, r.queueOffset))
    got = [json.loads(r.value) for r in found]
    assert sorted(got, key=lambda row: int(row["id"])) == rows, "every row exactly as it was"
    for carrier in {str(row["carrier"]) for row in rows}:
        of_key = [(r, g["id"]) for r, g in zip(found, got, strict=True) if g["carrier"] == carrier]
        assert len({(r.brokerName, r.queueId) for r, _ in of_key}) == 1
        assert all(r["keys"] == carrier for r, _ in of_key)
        ids = [i for _, i in of_key]
        assert ids == sorted(ids)


def test_ingest_csv_and_table_and_export(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("id,name\n1,a b\n2,c\n")
    loaded = ingest(
        IngestOptions(
            str(source), "Csv", namesrv=spark_namesrv, key="name", tag="id", value="name"
        ),
        spark,
    )
    assert loaded.rows == 2
    spark.range(3).createOrReplaceTempView("numbers")
    assert ingest(IngestOptions("numbers", "Csv", namesrv=spark_namesrv), spark).rows == 3

    for file_format in ("parquet", "json", "csv"):
        target = str(tmp_path / file_format)
        report = export(
            ExportOptions("Csv", target, namesrv=spark_namesrv, format=file_format), spark
        )
        assert report.rows == 5
        reader = spark.read.option("header", "true") if file_format == "csv" else spark.read
        assert reader.format(file_format).load(target).count() == 5
    with pytest.raises(OptionError, match="was begun with format 'json'"):
        export(ExportOptions("Csv", str(tmp_path / "json"), namesrv=spark_namesrv), spark)
    texts = spark.read.parquet(str(tmp_path / "parquet")).selectExpr("cast(value as string) v")
    assert {r.v for r in texts.collect()} == {"a b", "c", '{"id":0}', '{"id":1}', '{"id":2}'}


def test_jobs_name_what_is_wrong(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("id,name\n1,a\n2,b,too,many\n")

    def options(**changes: Any) -> IngestOptions:
        return IngestOptions(
            **{"source": str(source), "topic": "T", "namesrv": spark_namesrv, **changes}
        )

    with pytest.raises(OptionError, match="did you mean 'name'"):
        ingest(options(key="nam"), spark)
    with pytest.raises(OptionError, match="there is no file"):
        ingest(options(source=str(tmp_path / "none.csv")), spark)
    with pytest.raises(OptionError, match="neither a file nor a table"):
        ingest(options(source="nothing"), spark)
    with pytest.raises(JobError, match="does not exist") as missing:
        ingest(options(create_topic_queues=0), spark)
    shown = "".join(traceback.format_exception(missing.value))
    assert "SQLSTATE" not in shown, "Spark's own error stands above the good line"
    with pytest.raises(JobError, match=r"(?i)malformed"):
        ingest(options(), spark)


@pytest.mark.whole_spark
def test_the_job_file_runs_by_itself(spark_namesrv: str, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("id\n1\n2\n")
    command = [sys.executable, "-m", "pocketmq.spark.jobs.ingest", str(source)]
    ran = subprocess.run(
        [*command, "--topic", "Alone", "--namesrv", spark_namesrv, "--cores", "1"],
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("2 rows in "), "nothing else is printed"
    assert "incubator" not in ran.stderr, "nobody can do anything about that warning of Java's"


# -- a broker that dies -------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.parametrize("is_sharded", [pytest.param(False, marks=pytest.mark.whole_spark), True])
def test_a_broker_killed_in_the_middle_of_a_write_loses_nothing(
    spark: Any, tmp_path: Path, is_sharded: bool
) -> None:
    # Rows in turn go on to the other broker; rows bound to a queue wait until theirs is back.
    servers = Servers(tmp_path)
    rows_count = 300_000
    ports = {"broker-a": free_broker_port(), "broker-b": 0}

    def config(name: str, **settings: object) -> str:
        path = tmp_path / f"{name}.yaml"
        path.write_text("".join(f"{key}: {json.dumps(v)}\n" for key, v in settings.items()))
        return str(path)

    def broker(name: str) -> dict[str, object]:
        return {
            "brokerName": name,
            "listenPort": ports[name],
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": address,
            "storePathRootDir": str(tmp_path / name),
            "flushDiskType": "SYNC_FLUSH",
        }

    try:
        names = config("namesrv", listenPort=0, bindAddress="127.0.0.1")
        address = servers.start("namesrv", "namesrv", "-c", names)["namesrv"]
        for name in ("broker-a", "broker-b"):
            servers.start(name, "broker", "-c", config(name, **broker(name)))
        write(spark.range(1).selectExpr("'first' value"), address, "Killed")
        growth = TopicGrowth(address, "Killed")
        rows = spark.range(0, rows_count, 1, 4).selectExpr("cast(id as string) value")
        if is_sharded:
            rows = rows.withColumn("shardingKey", sf.expr("cast(value % 50 as string)"))
        options = {"batchRows": "200", "retryTimesWhenSendFailed": "30"}
        with ThreadPoolExecutor(1, initializer=register, initargs=(spark,)) as job:
            writing = job.submit(write, rows, address, "Killed", **options)
            while growth.stored() < 5000:
                assert not writing.done(), "the write ended before the broker could be killed"
            servers.kill("broker-a")
            if not is_sharded:
                writing.result()
            servers.start("broker-a", "broker", "-c", config("broker-a", **broker("broker-a")))
            writing.result()
        found = read(spark, address, "Killed").selectExpr("cast(value as string) v")
        assert found.filter("v != 'first'").distinct().count() == rows_count
    finally:
        servers.stop()
