"""What a batch read takes, by the source's own reader on real brokers: queues, bounds, filters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from support.spark.parts import created_topic

from pocketmq.client.blocking import Producer, PullConsumer
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.spark.errors import DataLossError, MissingTopicError, OptionError, SchemaError
from pocketmq.spark.options import read_options

ds = pytest.importorskip("pyspark.sql.datasource")
types = pytest.importorskip("pyspark.sql.types")

from pocketmq.spark.features import has_pushdown  # noqa: E402
from pocketmq.spark.reading import pushdown  # noqa: E402
from pocketmq.spark.reading.reader import (  # noqa: E402
    MessageReader,
    PushingReader,
    RangePartition,
)
from pocketmq.spark.source import MessageSource  # noqa: E402

pytestmark = pytest.mark.spark

pushes = pytest.mark.skipif(
    not has_pushdown(), reason="this PySpark tells a source no conditions (before 4.1)"
)

BROKERS = ("broker-a", "broker-b")
QUEUES = 2
PER_QUEUE = 20
TAGS = ("new", "paid", None)

Places = set[tuple[str, str, int, int]]


@pytest.fixture(scope="module")
def topics(spark_namesrv: str) -> tuple[str, str]:
    """Two topics of two queues on two brokers, with twenty messages in each queue."""
    names = ("SelectOrders", "SelectOffers")
    with Producer("fill", spark_namesrv) as producer:
        for topic in names:
            created_topic(spark_namesrv, topic, QUEUES)
            for broker_name in BROKERS:
                for queue_id in range(QUEUES):
                    queue = MessageQueue(topic, broker_name, queue_id)
                    for number in range(PER_QUEUE):
                        producer.send(
                            Message(
                                topic,
                                str(number),
                                tags=TAGS[number % 3],
                                properties={"price": str(number)},
                            ),
                            queue=queue,
                        )
    return names


def reader_of(
    namesrv: str, conditions: Iterable[Any] = (), **options: str
) -> tuple[MessageReader, list[Any]]:
    given = {"namesrvAddr": namesrv, **options}
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = "SelectOrders"
    if not has_pushdown():
        return MessageReader(read_options(given)), []
    reader = PushingReader(read_options(given))
    return reader, list(reader.pushFilters(list(conditions)))


def ranges(
    namesrv: str, conditions: Iterable[Any] = (), **options: str
) -> dict[MessageQueue, tuple[int, int]]:
    """From where to where each queue is read."""
    reader, _ = reader_of(namesrv, conditions, **options)
    wanted = [p.wanted for p in reader.partitions() if isinstance(p, RangePartition)]
    return {r.queue: (r.start, r.end) for r in wanted}


def rows(namesrv: str, conditions: Iterable[Any] = (), **options: str) -> list[dict[str, Any]]:
    reader, _ = reader_of(namesrv, conditions, **options)
    found = [b.to_pylist() for p in reader.partitions() for b in reader.read(p)]
    return [row for part in found for row in part]


def place(row: dict[str, Any]) -> tuple[str, str, int, int]:
    return row["topic"], row["brokerName"], row["queueId"], row["queueOffset"]


def every(*topics: str) -> set[tuple[str, str, int]]:
    return {(t, b, q) for t in topics for b in BROKERS for q in range(QUEUES)}


# -- queues -------------------------------------------------------------------------------------


def test_topics_by_list_and_by_pattern(spark_namesrv: str, topics: tuple[str, str]) -> None:
    assert ranges(spark_namesrv, subscribe="SelectOrders").keys() == every("SelectOrders")
    assert ranges(spark_namesrv, subscribe=",".join(topics)).keys() == every(*topics)
    assert ranges(spark_namesrv, subscribePattern="Select.*").keys() == every(*topics)
    assert ranges(spark_namesrv, subscribePattern=".*Offers").keys() == every("SelectOffers")
    with pytest.raises(MissingTopicError, match="no topic matches"):
        ranges(spark_namesrv, subscribePattern="SelectOrder")
    with pytest.raises(MissingTopicError, match="does not exist"):
        ranges(spark_namesrv, subscribe="SelectNone")


def test_a_pattern_leaves_out_what_is_not_made_for_users(
    spark_namesrv: str, topics: tuple[str, str]
) -> None:
    created_topic(spark_namesrv, "SPARK_COMMITS", 1)
    everything = {topic for topic, *_ in ranges(spark_namesrv, subscribePattern=".*")}
    assert everything >= set(topics)
    assert not any(t.startswith(("rmq_", "RMQ_", "%", "SPARK_COMMITS")) for t in everything)


def test_queues_one_by_one(spark_namesrv: str, topics: tuple[str, str]) -> None:
    table = {"SelectOrders": {"broker-b": [1]}, "SelectOffers": {"broker-a": [0, 0]}}
    assert ranges(spark_namesrv, assign=json.dumps(table)).keys() == {
        ("SelectOrders", "broker-b", 1),
        ("SelectOffers", "broker-a", 0),
    }
    for wrong, said in (
        ({"SelectOrders": {"broker-c": [0]}}, "names broker 'broker-c'"),
        ({"SelectOrders": {"broker-a": [7]}}, "names queue 7"),
        ({"SelectOrders": {}}, "names no queue"),
        ({"SelectOrders": [0, 1]}, r'name the broker .*\{"SelectOrders": \{"broker-a": \[0, 1\]'),
    ):
        with pytest.raises(OptionError, match=said):
            ranges(spark_namesrv, assign=json.dumps(wrong))


# -- bounds -------------------------------------------------------------------------------------


def test_data_loss_names_queue_and_both_ranges(spark_namesrv: str, topics: tuple[str, str]) -> None:
    beyond = json.dumps({"SelectOrders": {"broker-b": {"1": 25}}})
    with pytest.raises(
        DataLossError,
        match=r"SelectOrders@broker-b:1: offsets 0 to 25 were to be read, .* holds 0 to 20: "
        r"the queue ends at 20",
    ):
        ranges(spark_namesrv, endingOffsets=beyond)
    kept = ranges(spark_namesrv, endingOffsets=beyond, failOnDataLoss="false")
    assert kept[MessageQueue("SelectOrders", "broker-b", 1)] == (0, 20)


def stored_at(namesrv: str, queue: MessageQueue) -> list[int]:
    """The store times of a queue's messages, in milliseconds."""
    with PullConsumer("times", namesrv) as consumer:
        return [m.store_timestamp for m in consumer.pull(queue, 0).messages]


def test_times_are_looked_up_in_each_queue(spark_namesrv: str, topics: tuple[str, str]) -> None:
    queue = MessageQueue("SelectOrders", "broker-a", 1)
    times = stored_at(spark_namesrv, queue)
    at = times[10]
    first = times.index(at)
    for text in (str(at), datetime.fromtimestamp(at / 1000, UTC).isoformat()):
        assert ranges(spark_namesrv, startingTimestamp=text)[queue] == (first, 20)
        cut = ranges(spark_namesrv, endingTimestamp=text)
        assert cut.get(queue, (0, 0)) == (0, first)
    table = json.dumps({"SelectOrders": {"broker-a": {"1": at}}})
    by_queue = ranges(spark_namesrv, startingOffsetsByTimestamp=table)
    assert by_queue.pop(queue) == (first, 20)
    assert set(by_queue.values()) == {(0, 20)}, "queues that are not named begin at their start"
    # Before all, after all, and the wrong way round.
    assert set(ranges(spark_namesrv, startingTimestamp="0").values()) == {(0, 20)}
    assert ranges(spark_namesrv, startingTimestamp=str(at + 10**9)) == {}
    assert ranges(spark_namesrv, startingTimestamp=str(times[-1] + 1), endingTimestamp="5") == {}
    with pytest.raises(OptionError, match="give milliseconds since 1970"):
        ranges(spark_namesrv, startingTimestamp="yesterday")


def test_the_size_of_tasks(spark_namesrv: str, topics: tuple[str, str]) -> None:
    def sizes(**options: str) -> list[int]:
        reader, _ = reader_of(spark_namesrv, **options)
        return sorted(p.wanted.size for p in reader.partitions() if isinstance(p, RangePartition))

    assert sizes() == [20] * 4
    assert sizes(minPartitions="8") == [10] * 8
    assert sizes(maxRecordsPerPartition="15") == [5] * 4 + [15] * 4
    assert sum(sizes(maxRecordsPerPartition="15", minPartitions="30")) == 80


# -- filters ------------------------------------------------------------------------------------


def test_tags_and_conditions_are_left_to_the_broker(
    spark_namesrv: str, topics: tuple[str, str]
) -> None:
    tagged = rows(spark_namesrv, subExpression="new || paid")
    assert {r["tags"] for r in tagged} == {"new", "paid"}
    assert len(tagged) == 4 * 14
    dear = rows(spark_namesrv, filter="price > 15 AND TAGS = 'new'", expressionType="SQL92")
    assert sorted({int(r["value"]) for r in dear}) == [18]
    assert len(dear) == 4
    assert rows(spark_namesrv, filter="none") == []
    with pytest.raises(OptionError, match="set expressionType=SQL92"):
        rows(spark_namesrv, filter="price > 15")


CASES: list[Any] = (
    [
        ([ds.EqualTo(("brokerName",), "broker-a")], lambda p: p[1] == "broker-a", 2, 40),
        ([ds.In(("queueId",), (1, 9))], lambda p: p[2] == 1, 2, 40),
        ([ds.EqualTo(("topic",), "SelectOrders")], lambda p: p[0] == "SelectOrders", 4, 80),
        ([ds.EqualTo(("topic",), "None")], lambda p: False, 0, 0),
        ([ds.GreaterThanOrEqual(("queueOffset",), 17)], lambda p: p[3] >= 17, 4, 12),
        (
            [ds.GreaterThan(("queueOffset",), 3), ds.LessThan(("queueOffset",), 6)],
            lambda p: 3 < p[3] < 6,
            4,
            8,
        ),
        ([ds.EqualTo(("queueOffset",), 5)], lambda p: p[3] == 5, 4, 4),
        ([ds.LessThanOrEqual(("queueOffset",), -1)], lambda p: False, 0, 0),
        (
            [ds.EqualTo(("queueId",), 0), ds.EqualTo(("brokerName",), "broker-b")],
            lambda p: p[1:3] == ("broker-b", 0),
            1,
            20,
        ),
    ]
    if has_pushdown()
    else []
)
"""Conditions, the places they leave, and how many queues and offsets are read."""


@pushes
@pytest.mark.parametrize(
    ("conditions", "is_wanted", "queues_read", "offsets_read"),
    CASES,
)
def test_conditions_on_places_make_a_read_smaller(
    spark_namesrv: str,
    topics: tuple[str, str],
    conditions: list[Any],
    is_wanted: Any,
    queues_read: int,
    offsets_read: int,
) -> None:
    everything: Places = {place(r) for r in rows(spark_namesrv)}
    assert len(everything) == 80
    _, left = reader_of(spark_namesrv, conditions)
    assert left == [], "met by what is read: Spark need not evaluate them"
    assert {place(r) for r in rows(spark_namesrv, conditions)} == set(filter(is_wanted, everything))
    spans = ranges(spark_namesrv, conditions).values()
    assert (len(spans), sum(b - a for a, b in spans)) == (queues_read, offsets_read)


@pushes
def test_conditions_that_only_spare_pulls_are_evaluated_again(
    spark_namesrv: str, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = [ds.EqualTo(("tags",), "paid")]
    reader, left = reader_of(spark_namesrv, tags)
    assert left == tags
    assert reader._expression.text == "paid"
    assert {r["tags"] for r in rows(spark_namesrv, tags)} == {"paid"}
    # No expression can say these.
    for strange in ("a||b", " a", "*"):
        reader, _ = reader_of(spark_namesrv, [ds.EqualTo(("tags",), strange)])
        assert reader._expression.takes_all

    queue = MessageQueue("SelectOrders", "broker-b", 0)
    times = stored_at(spark_namesrv, queue)
    at = datetime.fromtimestamp(times[12] / 1000, UTC)
    after, until = (
        ds.GreaterThanOrEqual(("storeTimestamp",), at),
        ds.LessThan(("storeTimestamp",), at),
    )
    for condition in (after, until):
        assert reader_of(spark_namesrv, [condition])[1] == [condition]
        assert ranges(spark_namesrv, [condition])[queue] == (0, 20), "a clock may have been set"
    monkeypatch.setattr(pushdown, "CLOCK_STEP_MS_MAX", 0)
    first, last = times.index(times[12]), 20 - times[::-1].index(times[12])
    assert ranges(spark_namesrv, [after])[queue] == (first, 20)
    assert ranges(spark_namesrv, [until])[queue] == (0, last)


@pushes
def test_other_conditions_are_left_to_spark(spark_namesrv: str, topics: tuple[str, str]) -> None:
    others = [
        ds.Not(ds.EqualTo(("queueId",), 1)),
        ds.IsNull(("tags",)),
        ds.StringStartsWith(("topic",), "Select"),
        ds.EqualTo(("properties", "price"), "3"),
        ds.IsNotNull(("tags",)),
    ]
    _, left = reader_of(spark_namesrv, [*others, ds.IsNotNull(("queueId",))])
    assert left == others
    assert len(rows(spark_namesrv, others)) == 80


# -- columns ------------------------------------------------------------------------------------


def read_as(namesrv: str, schema: Any) -> list[dict[str, Any]]:
    source = MessageSource({"namesrvAddr": namesrv, "subscribe": "SelectOrders"})
    reader: Any = source.reader(schema)
    return [row for p in reader.partitions() for b in reader.read(p) for row in b.to_pylist()]


def test_a_schema_takes_some_columns(spark_namesrv: str, topics: tuple[str, str]) -> None:
    schema = types.StructType().add("body", "binary").add("queueOffset", "long")
    found = read_as(spark_namesrv, schema.add("tag", "string"))
    assert len(found) == 80
    assert list(found[0]) == ["body", "queueOffset", "tag"]
    assert all(int(row["body"]) == row["queueOffset"] for row in found)
    assert {row["tag"] for row in found} == set(TAGS)
    for name, kind, said in (
        ("bodi", "binary", "no column 'bodi'"),
        ("value", "string", "'value' is of type binary, not string"),
    ):
        with pytest.raises(SchemaError, match=said):
            read_as(spark_namesrv, types.StructType().add(name, kind))
