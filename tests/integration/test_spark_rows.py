"""What becomes of the rows of a write, by the source's own writer on real brokers."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from support.spark.parts import created_topic, read_rows, write_batches, writer_of

from pocketmq.client.blocking import PullConsumer
from pocketmq.client.producers.selectors import by_hash
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.spark.errors import MissingTopicError, OptionError, RowError, SchemaError

pytest.importorskip("pyspark.sql.datasource")

pytestmark = pytest.mark.spark


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def values(namesrv: str, topic: str, **options: str) -> list[str]:
    return sorted(r["value"].decode() for r in read_rows(namesrv, topic, **options))


# -- topics -------------------------------------------------------------------------------------


def test_each_row_may_name_its_topic(spark_namesrv: str) -> None:
    rows = batch(
        value=[f"row {i}" for i in range(300)],
        topic=[f"RowTopic{i % 3}" for i in range(300)],
        key=[f"k{i}" for i in range(300)],
    )
    [written] = write_batches(spark_namesrv, rows, createTopicQueues="2")
    for number in range(3):
        found = read_rows(spark_namesrv, f"RowTopic{number}")
        assert {(r["value"].decode(), r["keys"]) for r in found} == {
            (f"row {i}", f"k{i}") for i in range(number, 300, 3)
        }
        assert len(found) == 100
    by_topic: Counter[str] = Counter()
    for place, count in written.rows_by_queue.items():
        by_topic[place.partition("@")[0]] += count
    assert by_topic == {f"RowTopic{i}": 100 for i in range(3)}


def test_the_option_topic_goes_before_the_column(spark_namesrv: str) -> None:
    rows = batch(value=["a"], topic=["RowNowhere"])
    write_batches(spark_namesrv, rows, topic="RowOption", createTopicQueues="1")
    assert values(spark_namesrv, "RowOption") == ["a"]


def test_rows_without_a_topic(spark_namesrv: str) -> None:
    with pytest.raises(OptionError, match="option 'topic' is missing"):
        write_batches(spark_namesrv, batch(value=["a"]))
    rows = batch(value=["a", "b"], topic=pa.array(["RowTopic0", None], pa.string()))
    with pytest.raises(RowError, match=r"row 1 .* its topic is null"):
        write_batches(spark_namesrv, rows, createTopicQueues="1")
    with pytest.raises(MissingTopicError, match="RowMissing does not exist"):
        write_batches(spark_namesrv, batch(value=["a"], topic=["RowMissing"]))


def test_sharding_keys_hold_in_every_topic(spark_namesrv: str) -> None:
    keys = [f"key {i % 11}" for i in range(110)]
    topics = ["RowSharded0", "RowSharded1"] * 55
    rows = batch(value=[str(i) for i in range(110)], topic=topics, shardingKey=keys)
    created_topic(spark_namesrv, "RowSharded0", 1)
    created_topic(spark_namesrv, "RowSharded1", 3)
    write_batches(spark_namesrv, rows)
    for topic in set(topics):
        with PullConsumer("sharded", spark_namesrv) as consumer:
            queues = sorted(consumer.queues(topic))
        for row in read_rows(spark_namesrv, topic):
            key = row["properties"][props.SHARDING_KEY]
            queue = by_hash(queues, Message(topic, b"x"), key)
            assert (row["brokerName"], row["queueId"]) == (queue.broker_name, queue.queue_id)


# -- delays -------------------------------------------------------------------------------------


def test_delayed_rows_are_held_back_by_the_broker(spark_namesrv: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=2)
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    rows = batch(
        value=["at once", "level", "later", "past"],
        keys=["k0", "k1", "k2", "k3"],
        delayLevel=pa.array([0, 18, None, None], pa.int32()),
        deliverAt=pa.array([None, None, later, long_ago], pa.timestamp("us", "UTC")),
    )
    [written] = write_batches(spark_namesrv, rows, topic="RowDelayed", createTopicQueues="2")
    assert sum(written.rows_by_queue.values()) == 4
    # A time that has passed is delivered at once, by the broker's wheel and its own turn.
    found: list[str] = []
    while len(found) < 2:
        found = values(spark_namesrv, "RowDelayed")
    assert found == ["at once", "past"]


def test_delays_by_numbers_and_wrong_ones(spark_namesrv: str) -> None:
    at = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp() * 1000)
    rows = batch(value=["a"], deliverAt=[at], tags=["t"], shardingKey=["s"])
    write_batches(spark_namesrv, rows, topic="RowNumbers", createTopicQueues="2")
    found: list[dict[str, Any]] = []
    while not found:
        found = read_rows(spark_namesrv, "RowNumbers")
    assert (found[0]["tags"], found[0]["properties"][props.SHARDING_KEY]) == ("t", "s")
    for wrong, said in (
        (batch(value=["a", "b"], delayLevel=[0, -1]), "row 1"),
        (batch(value=["a", "b"], delayLevel=[0, 2], deliverAt=[0, at]), "row 1 .*give one of them"),
        (
            batch(value=["a", "b"], delayLevel=[0, 2], deliverAt=[0, at]),
            r"row 1 .*columns delayLevel \(2\) and deliverAt",
        ),
        (
            batch(value=["a", "b", "c"], delayLevel=[0, 18, 99]),
            "row 2 .*column delayLevel is 99: it must be 0 .*to 18; .*column deliverAt",
        ),
        (batch(value=["a", "b"], deliverAt=[at, -1]), "row 1 .*column deliverAt is -1 ms"),
        (batch(value=["a", "b"], tags=["t|u", "x||y"]), r"row 1 .*column tags is 'x\|\|y'"),
    ):
        with pytest.raises(RowError, match=said):
            write_batches(spark_namesrv, wrong, topic="RowNumbers")
    with pytest.raises(SchemaError, match="'deliverAt' is of type string"):
        write_batches(spark_namesrv, batch(value=["a"], deliverAt=["soon"]), topic="RowNumbers")


def test_delayed_rows_keep_their_queue(spark_namesrv: str) -> None:
    rows = batch(
        value=["a", "b"],
        deliverAt=[1, 1],
        queueId=[1, 0],
        brokerName=["broker-b", "broker-a"],
    )
    write_batches(spark_namesrv, rows, topic="RowPlaced", createTopicQueues="2")
    found: list[dict[str, Any]] = []
    while len(found) < 2:
        found = read_rows(spark_namesrv, "RowPlaced")
    places = {r["value"]: MessageQueue("RowPlaced", r["brokerName"], r["queueId"]) for r in found}
    assert places == {
        b"a": MessageQueue("RowPlaced", "broker-b", 1),
        b"b": MessageQueue("RowPlaced", "broker-a", 0),
    }


# -- rows that are too large --------------------------------------------------------------------


def test_large_rows_may_go_to_a_side_topic(spark_namesrv: str) -> None:
    rows = batch(
        value=["small", "x" * 2000, "also small", "y" * 1_500_000],
        keys=["k0", "k1", "k2", "k3"],
        properties=pa.array(
            [[("a", "b")], [("a", "c"), ("DELAY", "3")], [], []], pa.map_(pa.string(), pa.string())
        ),
    )
    options = {"topic": "RowLarge", "maxMessageSize": "1000", "createTopicQueues": "1"}
    with pytest.raises(RowError, match=r"row 3 .* has 1500000 bytes, the limit is 1000.*largeRow"):
        write_batches(spark_namesrv, rows, **options)
    write_batches(spark_namesrv, rows, largeRowTopic="RowLargeAside", **options)
    assert values(spark_namesrv, "RowLarge") == ["also small", "small"]
    aside = {r["keys"]: r for r in read_rows(spark_namesrv, "RowLargeAside")}
    assert aside["k1"]["value"] == b"x" * 2000
    assert len(aside["k3"]["value"]) == 1024 * 1024, "cut"
    for key, size in (("k1", "2000"), ("k3", "1500000")):
        assert aside[key]["properties"]["ORIGIN_TOPIC"] == "RowLarge"
        assert aside[key]["properties"]["ORIGIN_SIZE"] == size
    assert aside["k1"]["properties"]["a"] == "c"


def test_the_side_topic_is_there_before_the_job_starts(spark_namesrv: str) -> None:
    created_topic(spark_namesrv, "RowReady", 1)
    with pytest.raises(MissingTopicError, match="RowAside"):
        writer_of(
            spark_namesrv,
            batch(value=["a"]).schema,
            topic="RowReady",
            largeRowTopic="RowAside",
        )


# -- marks --------------------------------------------------------------------------------------


def test_attempts_that_spark_did_not_take_do_not_count(spark_namesrv: str) -> None:
    first = batch(value=[f"{i}" for i in range(50)], topic=["RowMarked0", "RowMarked1"] * 25)
    turned = first.take(pa.array(range(49, -1, -1)))
    options = {"createTopicQueues": "3", "writerId": "twice"}
    writer = writer_of(spark_namesrv, first.schema, **options)
    attempts = [writer.write(iter([rows])) for rows in (first, turned, first)]
    for topic in ("RowMarked0", "RowMarked1"):
        assert len(values(spark_namesrv, topic)) == 75
        assert values(spark_namesrv, topic, dropRepeats="true") == []
    writer.commit([attempts[1]])
    # Another run of the job, and an earlier one that comes too late.
    write_batches(spark_namesrv, first, first, **options)
    writer.commit([attempts[0]])
    for number in range(2):
        counted = values(spark_namesrv, f"RowMarked{number}", dropRepeats="true")
        assert counted == sorted(str(i) for i in range(number, 50, 2))
