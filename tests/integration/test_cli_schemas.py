"""`pocketmq tail` writes bodies in Avro and Protobuf as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from support.commands.here import Command, here
from support.peers.schema_registry import Registry, schema_registry

from pocketmq.client import Message
from pocketmq.schemas import Schema, SchemaRegistry, Serializer, registry_settings
from pocketmq.testing import Cluster, LocalCluster

__all__ = ["here"]

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "total", "type": DECIMAL},
    {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "seal", "type": "bytes"},
]
ORDER = Schema(json.dumps({"type": "record", "name": "Order", "fields": FIELDS}))
VALUE = {
    "id": 7,
    "total": Decimal("12.50"),
    "placed": datetime(2026, 1, 31, tzinfo=UTC),
    "seal": b"\0",
}
SHOWN = {"id": 7, "total": "12.50", "placed": "2026-01-31T00:00:00Z", "seal": "AA=="}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as server:
        yield server


@pytest.fixture(scope="module")
def cluster(registry: Registry) -> Iterator[Cluster]:
    settings = registry_settings(registry.url)
    assert settings is not None
    framed = Serializer.registered(SchemaRegistry(settings), "Orders-value", ORDER)
    with LocalCluster(topics={"Orders": 1, "Plain": 1}) as running, running.producer() as producer:
        producer.send(Message("Orders", framed.encode(VALUE), keys=["k"]))
        producer.send(Message("Orders", b"text"))
        producer.send(Message("Plain", Serializer(ORDER).encode(VALUE)))
        yield running


def words(cluster: Cluster, topic: str) -> tuple[str, ...]:
    return ("tail", topic, "--offset", "beginning", "--exit", "--namesrv", cluster.namesrv)


def test_bodies_become_json_by_the_registry(
    cluster: Cluster, registry: Registry, here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, errors = here(*words(cluster, "Orders"), "--schema-registry", registry.url)
    first, second = out.splitlines()
    assert (code, json.loads(first), second) == (0, SHOWN, "text")
    assert "Orders broker-a:0 1: the body has no frame" in errors
    assert "written as it is" in errors
    monkeypatch.setenv("POCKETMQ_SCHEMA_REGISTRY", registry.url)
    _, out, _ = here(*words(cluster, "Orders"), "--decode", "-f", "%k %s\\n", "--count", "1")
    key, _, body = out.partition(" ")
    assert (key, json.loads(body)) == ("k", SHOWN)
    _, out, _ = here(*words(cluster, "Orders"), "-f", "%S\\n", "--count", "1")
    assert int(out) == 5 + len(Serializer(ORDER).encode(VALUE)), "nobody has asked to decode"


def test_bodies_become_json_by_a_file(cluster: Cluster, here: Command, tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(ORDER.text)
    code, out, _ = here(*words(cluster, "Plain"), "--schema", str(path))
    assert (code, json.loads(out)) == (0, SHOWN)


def test_what_cannot_work_is_told(cluster: Cluster, here: Command) -> None:
    code, _, errors = here(*words(cluster, "Plain"), "--decode")
    assert code == 2
    assert "--decode needs schemas: give --schema-registry URL" in errors
    code, _, errors = here(*words(cluster, "Orders"), "--schema-registry", "http://127.0.0.1:1")
    assert code == 1
    assert "does not answer" in errors
