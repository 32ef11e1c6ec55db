"""The console decodes Avro and Protobuf, by a registry and by files; nothing of it does harm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from support.brokers.console_parts import API, Consoled, console
from support.peers.schema_registry import Registry, schema_registry

from pocketmq.cli.servers.consoles.own_console import schemas_wanted
from pocketmq.client import Message
from pocketmq.console.decoding.schema_decoder import SCHEMA_BODY_SIZE_MAX, schema_options
from pocketmq.protocol.errors import ConfigError
from pocketmq.schemas import (
    Schema,
    SchemaError,
    SchemaRegistry,
    SchemaType,
    Serializer,
    registry_settings,
)
from pocketmq.testing import Cluster, LocalCluster

AVRO = Schema(
    json.dumps(
        {
            "type": "record",
            "name": "shop.Order",
            "fields": [
                {"name": "id", "type": "long"},
                {
                    "name": "total",
                    "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                },
                {"name": "next", "type": ["null", "shop.Order"], "default": None},
            ],
        }
    )
)
PROTO = Schema(
    'syntax = "proto3"; package shop; message Refund { int64 id = 1; string why = 2; }',
    SchemaType.PROTOBUF,
)
COUNT = 20


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as server:
        yield server


@pytest.fixture(scope="module")
def cluster(registry: Registry) -> Iterator[Cluster]:
    settings = registry_settings(registry.url)
    assert settings is not None
    client = SchemaRegistry(settings)
    order = Serializer.registered(client, "Orders-value", AVRO)
    refund = Serializer.registered(client, "Refunds-value", PROTO)
    client.register("Nulls-value", Schema('{"type": "array", "items": "null"}'))
    topics = {"Orders": 1, "Refunds": 1, "Plain": 1, "Hostile": 1}
    with LocalCluster(topics=topics) as running, running.producer() as producer:
        for number in range(COUNT):
            value = {"id": number, "total": Decimal(number) / 4, "next": None}
            producer.send(Message("Orders", order.encode(value), keys=[f"k{number}"]))
        producer.send(Message("Refunds", refund.encode({"id": 1, "why": "broken"}), keys=["r"]))
        producer.send(Message("Plain", Serializer(PROTO).encode({"id": 2}), keys=["p"]))
        frame = bytes([0, 0, 0, 0, order.schema_id or 0])
        bodies = {
            "deep": frame + b"\0\x02\0\x02" * 100_000,
            "cut": frame + b"\x02",
            "unknown": b"\0\0\0\x01\0" + b"\x02",
            "nulls": bytes([0, 0, 0, 0, 3]) + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0",
            "large": frame + bytes(SCHEMA_BODY_SIZE_MAX),
            "none": b"text",
        }
        for key, content in bodies.items():
            producer.send(Message("Hostile", content, keys=[key]))
        yield running


@pytest.fixture(scope="module")
def shown(cluster: Cluster, registry: Registry, tmp_path_factory: Any) -> Iterator[Consoled]:
    path = tmp_path_factory.mktemp("schemas") / "shop.proto"
    path.write_text(PROTO.text)
    options = schema_options(registry.url, [f"Plain={path}:shop.Refund"])
    with console(cluster, schemas=options) as running:
        yield running


def get(running: Consoled, path: str, **query: Any) -> Any:
    return running.api.ok("GET", f"{API}/topics/{path}?{urlencode(query)}")


def body(running: Consoled, topic: str, key: str, **query: Any) -> Any:
    (found,) = get(running, f"{topic}/messages", start="earliest", key=key)["messages"]
    return get(running, f"{topic}/messages/{quote(found['msgId'])}/body", **query)


def members(seen: Any) -> dict[str, Any]:
    assert seen["problem"] is None
    return {member["name"]: member["text"] for member in seen["value"]["members"]}


def test_bodies_are_decoded_by_the_registry(shown: Consoled) -> None:
    seen = body(shown, "Orders", "k3")
    assert (seen["decoder"], seen["decoders"][4:]) == ("schema", ["schema"])
    assert members(seen) == {"id": "3", "total": "0.75", "next": "null"}
    assert members(body(shown, "Refunds", "r")) == {"id": "1", "why": "broken"}


def test_bodies_of_a_topic_are_decoded_by_its_file(shown: Consoled) -> None:
    assert members(body(shown, "Plain", "p")) == {"id": "2", "why": ""}


def test_other_bodies_are_shown_as_they_were(shown: Consoled) -> None:
    assert body(shown, "Hostile", "none")["decoder"] == "text"
    told = body(shown, "Hostile", "none", decoder="schema")["problem"]
    assert "has no frame that names a schema" in told
    assert body(shown, "Orders", "k3", decoder="hex")["problem"] is None


def test_conditions_look_into_what_is_decoded(shown: Consoled) -> None:
    found = get(
        shown, "Orders/messages", start="earliest", where="body.total > 4.25 AND body.id <> 19"
    )
    assert found["undecoded"] == 0
    assert [message["keys"] for message in found["messages"]] == [["k18"]]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("deep", "does not fit its schema of Avro: maximum recursion depth"),
        ("cut", "does not fit its schema of Avro"),
        ("unknown", "Schema 256 not found"),
        ("nulls", "schema 3 of the registry cannot be used.*take no bytes"),
        ("large", "look at it as text or hex"),
    ],
)
def test_hostile_bodies_become_a_problem_in_words(shown: Consoled, key: str, said: str) -> None:
    assert re.search(said, body(shown, "Hostile", key)["problem"])


def test_a_registry_that_is_silent_holds_nothing_up(
    cluster: Cluster, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.console.decoding.schema_decoder.REGISTRY_TIMEOUT_S", 0.05)
    options = schema_options(registry.url)
    registry.gate.clear()
    try:
        with console(cluster, schemas=options) as running:
            before = len(registry.asked)
            found = get(running, "Orders/messages", start="earliest", where="body.id = 3")
            assert (found["messages"], found["undecoded"]) == ([], COUNT)
            assert "does not answer" in body(running, "Orders", "k3")["problem"]
            assert len(registry.asked) <= before + 1
    finally:
        registry.gate.set()


def test_what_cannot_work_is_refused_at_the_start(tmp_path: Path) -> None:
    assert schemas_wanted() is None
    with pytest.raises(ConfigError, match="TOPIC=FILE"):
        schema_options("", ["order.avsc"])
    with pytest.raises(SchemaError, match=r"ends with \.avsc"):
        schema_options("", [f"Orders={tmp_path}/order.txt"])
    with pytest.raises(SchemaError, match="cannot be read"):
        schema_options("", [f"Orders={tmp_path}/gone.avsc"])


def test_the_environment_says_where_the_registry_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCKETMQ_SCHEMA_REGISTRY", "http://a:8081")
    wanted = schemas_wanted()
    assert wanted is not None
    assert wanted.registry is not None
    assert wanted.registry.url == "http://a:8081"
