"""Replays with real Spark: dead letters back to where they came from, once, edited, and paced."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.spark.parts import Rows, read, write

from pocketmq.client.blocking import Producer
from pocketmq.protocol.messages.message import Message
from pocketmq.spark import (
    ExportOptions,
    JobError,
    MissingTopicError,
    OptionError,
    ReplayOptions,
    export,
    register,
    replay,
)
from pocketmq.spark.jobs.replaying.sending import ReplaySending

pyspark = pytest.importorskip("pyspark")
sf = pytest.importorskip("pyspark.sql.functions")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DEAD = "%DLQ%billing"


def dead_letters(spark: Any, namesrv: str, origin: str, count: int, start: int = 0) -> None:
    """Messages as the broker puts them there, by the properties that tell where they came from."""
    properties = {"RETRY_TOPIC": origin, "ORIGIN_MESSAGE_ID": "id", "MAX_RECONSUME_TIMES": "3"}
    with Producer("dead", namesrv) as producer:
        for i in range(start, start + count):
            own = {**properties, **({"__SHARDINGKEY": f"s{i % 3}"} if i % 2 else {})}
            message = Message(DEAD, str(i).encode(), keys=f"k{i}", tags="t", properties=own)
            producer.send(message)


def sent(spark: Any, namesrv: str, topic: str, **options: str) -> Rows:
    rows: Rows = read(spark, namesrv, topic, **options).collect()
    return sorted(rows, key=lambda row: (row.brokerName, row.queueId, row.queueOffset))


def numbers_of(rows: Rows) -> list[int]:
    return sorted(int(row.value) for row in rows)


@pytest.mark.whole_spark
def test_dead_letters_go_back_once_edited_and_by_a_filter(
    spark: Any, spark_namesrv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namesrv = spark_namesrv
    origin = "Bills"
    write(spark.range(0).selectExpr("'' value"), namesrv, origin)
    dead_letters(spark, namesrv, origin, 60)
    options = ReplayOptions(
        DEAD, namesrv=namesrv, checkpoint=str(tmp_path / "checkpoint"), slice_rows=25
    )
    dry = replay(ReplayOptions(**{**vars(options), "dry_run": True}), spark)
    assert dry.routes == ((DEAD, origin, 60),)
    assert len(dry.samples) == 5
    assert dry.samples[0]["topic"] == origin
    assert sent(spark, namesrv, origin) == []

    # The run fails in the second slice, in the middle of one of its two writes.
    written: list[int] = []
    write_part = ReplaySending._write

    def dies(self: Any, rows: Any, number: int, *, is_keyed: bool) -> None:
        written.append(number)
        if len(written) == 3:
            nothing = sf.lit(None).cast("string")
            wrong = rows.limit(1).withColumns(
                {"value": nothing.cast("binary"), "shardingKey": nothing}
            )
            rows = rows.union(wrong)
        write_part(self, rows, number, is_keyed=is_keyed)

    monkeypatch.setattr(ReplaySending, "_write", dies)
    with pytest.raises(JobError, match="its value is null"):
        replay(options, spark)
    monkeypatch.undo()
    once: dict[str, str] = {"dropRepeats": "true"}
    committed = len(sent(spark, namesrv, origin, **once))
    assert 0 < committed <= 25, "the second slice is not committed"
    assert committed < len(sent(spark, namesrv, origin)) < 50
    replay(options, spark)
    rows = sent(spark, namesrv, origin)
    assert numbers_of(rows) == list(range(60)), "each once"
    assert numbers_of(sent(spark, namesrv, origin, **once)) == list(range(60)), "each counts once"
    for row in rows:
        assert row["keys"] == f"k{int(row.value)}"
        assert row.reconsumeTimes == 0
        told = {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "MAX_RECONSUME_TIMES"} & set(row.properties)
        assert not told
        assert row.properties["REPLAY_OF"].startswith(f"{DEAD}@broker-")
    for key in ("s0", "s1", "s2"):
        of_key = [r for r in rows if r.properties.get("__SHARDINGKEY") == key]
        assert len({(r.brokerName, r.queueId) for r in of_key}) == 1
    queues = Counter((r.brokerName, r.queueId) for r in rows if "__SHARDINGKEY" not in r.properties)
    assert len(queues) > 1, "rows without a sharding key are spread"

    dead_letters(spark, namesrv, origin, 5, start=60)
    assert replay(options, spark).rows == 5
    assert replay(options, spark).rows == 0

    write(spark.range(0).selectExpr("'' value"), namesrv, "Edited")
    edited = ReplayOptions(
        DEAD,
        topic="Edited",
        namesrv=namesrv,
        where="cast(cast(value as string) as int) < 3",
        columns={
            "value": "concat('<', cast(value as string), '>')",
            "tags": "'fixed'",
            "properties": "map_concat(properties, map('by', 'hand'))",
        },
        rate=1000,
        checkpoint=str(tmp_path / "edited"),
    )
    report = replay(edited, spark)
    assert (report.rows, report.messages_read) == (3, 65)
    rows = sent(spark, namesrv, "Edited")
    assert sorted(r.value for r in rows) == [b"<0>", b"<1>", b"<2>"]
    assert {(r.tags, r.properties["by"]) for r in rows} == {("fixed", "hand")}


@pytest.mark.whole_spark
def test_files_of_an_export_go_to_another_topic_in_order(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    rows = spark.range(300).selectExpr(
        "cast(id as string) value", "cast(id % 7 as string) shardingKey"
    )
    write(rows.coalesce(1), spark_namesrv, "Kept")
    directory = str(tmp_path / "kept")
    export(ExportOptions("Kept", directory, namesrv=spark_namesrv), spark)
    options = ReplayOptions(
        directory,
        topic="KeptAgain",
        namesrv=spark_namesrv,
        checkpoint=str(tmp_path / "checkpoint"),
        writer_options={"createTopicQueues": "4"},
        slice_rows=100,
    )
    assert replay(options, spark).rows == 300
    assert replay(options, spark).rows == 0
    found = sent(spark, spark_namesrv, "KeptAgain")
    assert numbers_of(found) == list(range(300))
    for key in map(str, range(7)):
        of_key = [int(r.value) for r in found if r.properties["__SHARDINGKEY"] == key]
        assert of_key == sorted(of_key)
    # By default files go back to the topic that they were exported from.
    back = ReplayOptions(
        directory, namesrv=spark_namesrv, dry_run=True, checkpoint=str(tmp_path / "back")
    )
    assert replay(back, spark).routes == (("Kept", "Kept", 300),)


def test_a_replay_onto_itself_is_refused_before_spark_runs(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    with Producer("own", spark_namesrv) as producer:
        producer.send(Message("Own", b"x"))
        producer.send(Message("Moved", b"x", properties={"DLQ_ORIGIN_TOPIC": "Own"}))
    # A session that does not know the format yet is given it when the job begins.
    other = spark.newSession()
    sources = other._jsparkSession.sessionState().dataSourceManager()
    try:
        for source, topic in (("Own", None), ("Own", "Own"), ("Moved,Own", None)):
            given = ReplayOptions(
                source, topic=topic, namesrv=spark_namesrv, checkpoint=str(tmp_path / "c")
            )
            with pytest.raises(JobError, match=r"1 messages .* to Own \(the first is Own@broker-"):
                replay(given, other)
            assert not sources.dataSourceExists("pocketmq")
        moved = ReplayOptions("Moved", namesrv=spark_namesrv, checkpoint=str(tmp_path / "d"))
        assert replay(moved, spark).routes == (("Moved", "Own", 1),)
    finally:
        register(spark)


@pytest.mark.whole_spark
def test_replays_name_what_is_wrong(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    write(spark.range(3).selectExpr("cast(id as string) value"), spark_namesrv, "Plain")

    def attempt(source: str = "Plain", **changes: Any) -> None:
        given = {"namesrv": spark_namesrv, "checkpoint": str(tmp_path / "c"), **changes}
        replay(ReplayOptions(source, **given), spark)

    with pytest.raises(MissingTopicError, match="Nowhere does not exist"):
        attempt("Nowhere")
    with pytest.raises(OptionError, match="there is no directory"):
        attempt(str(tmp_path / "none"))
    with pytest.raises(JobError, match="3 messages would go where they are, to Plain"):
        attempt()
    with pytest.raises(JobError, match="3 messages would go where they are, to Plain"):
        attempt(where="true")
    with pytest.raises(MissingTopicError, match="topic NoTarget does not exist"):
        attempt(topic="NoTarget", checkpoint=str(tmp_path / "d"))
    with pytest.raises(JobError, match=r"the filter 'tgas = 1' failed: .*tgas"):
        attempt(topic="T", where="tgas = 1", checkpoint=str(tmp_path / "e"))
    with pytest.raises(OptionError, match="did you mean 'value'"):
        attempt(topic="T", columns={"valu": "1"})
    with pytest.raises(OptionError, match="ends before it begins"):
        attempt(topic="T", since_ms=2, until_ms=1)
    with pytest.raises(JobError, match="none of that time"):
        attempt(topic="T", until_ms=1, checkpoint=str(tmp_path / "f"))
    with pytest.raises(OptionError, match="was begun with topic None, now it is 'Other'"):
        attempt(topic="Other", where="true")
    lost = "%DLQ%lost"
    with Producer("dead", spark_namesrv) as producer:
        producer.send(Message(lost, b"x"))
    with pytest.raises(JobError, match="1 messages do not tell where they came from"):
        attempt(lost, checkpoint=str(tmp_path / "g"))
    other = tmp_path / "other"
    spark.range(3).write.parquet(str(other))
    with pytest.raises(OptionError, match=r"has no column topic.*pocketmq ingest"):
        attempt(str(other), topic="T", checkpoint=str(tmp_path / "h"))
