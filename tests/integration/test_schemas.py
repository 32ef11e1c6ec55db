"""Schemas over real HTTP: registries and serializers, and Confluent's client beside them."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.peers.certificates import CertificateFiles
from support.peers.schema_registry import Registry, schema_registry

from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.clock import SystemClock
from pocketmq.schemas import (
    BodyError,
    Deserializer,
    IncompatibleSchemaError,
    RegistryError,
    RegistrySettings,
    RegistryUnavailableError,
    Schema,
    SchemaError,
    SchemaMissingError,
    SchemaReference,
    SchemaRegistry,
    SchemaType,
    Serializer,
    ValueMismatchError,
    registry_settings,
    value_subject,
)
from pocketmq.schemas.registry.registry import MISSING_S, UNAVAILABLE_S
from pocketmq.testing.clock import VirtualClock

SUBJECT = "Orders-value"


def order(*more: Any) -> Schema:
    fields = [{"name": "id", "type": "long"}, *more]
    return Schema(json.dumps({"type": "record", "name": "shop.Order", "fields": fields}))


PLAIN = order()
NEWER = order({"name": "channel", "type": "string", "default": "web"})
BROKEN = order({"name": "channel", "type": "string"})
PROTO = Schema(
    'syntax = "proto3"; package shop; message Other {} message Order { int64 id = 1; }',
    SchemaType.PROTOBUF,
)


@pytest.fixture
def server() -> Iterator[Registry]:
    with schema_registry() as registry:
        yield registry


def client(server: Registry, clock: Any = None, **settings: Any) -> SchemaRegistry:
    return SchemaRegistry(RegistrySettings(url=server.url, **settings), clock)


# -- the registry -------------------------------------------------------------------------------


def test_a_schema_is_registered_and_found(server: Registry) -> None:
    registry = client(server)
    number = registry.register(SUBJECT, PLAIN)
    assert registry.register(SUBJECT, PLAIN) == number
    assert json.loads(client(server).schema(number).text) == json.loads(PLAIN.text)
    newer = registry.register(SUBJECT, NEWER)
    latest = registry.latest(SUBJECT)
    assert (latest.subject, latest.version, latest.id) == (SUBJECT, 2, newer)
    assert registry.version(SUBJECT, 1).id == number == registry.lookup(SUBJECT, PLAIN).id
    other = registry.register("a/b c?", PROTO)
    assert registry.latest("a/b c?").schema == PROTO == client(server).schema(other)


def test_what_an_id_stands_for_is_asked_once(server: Registry) -> None:
    number = client(server).register(SUBJECT, PLAIN)
    registry = client(server)
    before = len(server.asked)
    assert registry.schema(number) is registry.schema(number)
    assert len(server.asked) == before + 1


def test_what_is_missing_is_told_and_not_asked_again_at_once(server: Registry) -> None:
    clock = VirtualClock()
    registry = client(server, clock)
    for _ in range(3):
        with pytest.raises(SchemaMissingError, match=r"names schema 99.*another registry") as e:
            registry.schema(99)
        assert e.value.code == 40403
    assert len(server.asked) == 1
    clock.block(MISSING_S + 1)
    with pytest.raises(SchemaMissingError):
        registry.schema(99)
    assert len(server.asked) == 2
    with pytest.raises(SchemaMissingError, match=r"Subject 'gone' not found.*40401"):
        registry.latest("gone")
    registry.register(SUBJECT, PLAIN)
    with pytest.raises(SchemaMissingError, match="40402"):
        registry.version(SUBJECT, 7)
    with pytest.raises(SchemaMissingError, match="40403"):
        registry.lookup(SUBJECT, NEWER)


def test_an_incompatible_schema_is_refused_with_the_problem(server: Registry) -> None:
    registry = client(server)
    registry.register(SUBJECT, PLAIN)
    assert registry.problems(SUBJECT, NEWER) == []
    assert registry.problems(SUBJECT, BROKEN) == ["READER_FIELD_MISSING_DEFAULT_VALUE at /channel"]
    with pytest.raises(IncompatibleSchemaError, match=r"at /channel.*with a default value") as e:
        registry.register(SUBJECT, BROKEN)
    assert e.value.code == 409
    assert registry.latest(SUBJECT).version == 1


def test_what_is_no_schema_is_refused(server: Registry) -> None:
    with pytest.raises(SchemaError, match="42201"):
        client(server).register(SUBJECT, Schema("{"))


def test_references_are_found_in_the_order_of_their_use(server: Registry) -> None:
    registry = client(server)
    city = Schema('{"type": "enum", "name": "shop.City", "symbols": ["ULM"]}')
    registry.register("city", city)
    of_city = (SchemaReference("shop.City", "city", 1),)
    person = '{"type":"record","name":"shop.Person","fields":[{"name":"city","type":"City"}]}'
    registry.register("person", Schema(person, SchemaType.AVRO, of_city))
    visit = Schema(
        '{"type":"record","name":"shop.Visit","fields":[{"name":"who","type":"Person"}]}',
        SchemaType.AVRO,
        (SchemaReference("shop.Person", "person", 1),),
    )
    serializer = Serializer.registered(registry, "visit", visit)
    value = {"who": {"city": "ULM"}}
    assert Deserializer(client(server)).decode(serializer.encode(value)) == value
    names = [name for name, _ in client(server).references_of(visit)]
    assert names == ["shop.City", "shop.Person"]


def test_a_user_or_a_token_is_shown(server: Registry) -> None:
    server.user = "ann:secret"
    with pytest.raises(
        RegistryError, match=r"refuses the user.*POCKETMQ_SCHEMA_REGISTRY_USER"
    ) as e:
        client(server).latest(SUBJECT)
    assert e.value.code == 401
    assert client(server, user="ann:secret").register(SUBJECT, PLAIN) == 1
    server.user, server.token = "", "t0ken"
    assert client(server, token="t0ken").latest(SUBJECT).id == 1
    assert "secret" not in repr(RegistrySettings(url="http://a", user="ann:secret"))
    assert "t0ken" not in repr(RegistrySettings(url="http://a", token="t0ken"))


def test_tls_is_by_the_authority_that_is_named(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "tls", clock=SystemClock())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert_path, files.key_path)
    with schema_registry(context) as server:
        assert client(server, trust_cert_path=files.ca_path).register(SUBJECT, PLAIN) == 1
        with pytest.raises(RegistryUnavailableError, match=r"not trusted.*TRUST_CERT"):
            client(server).latest(SUBJECT)
    with pytest.raises(ConfigError, match="cannot be read"):
        client(server, trust_cert_path=str(tmp_path / "gone.pem"))


def test_a_registry_that_is_silent_is_given_up_and_left_alone(server: Registry) -> None:
    clock = VirtualClock()
    registry = client(server, clock, timeout_s=0.05)
    server.gate.clear()
    for _ in range(50):
        with pytest.raises(RegistryUnavailableError, match="does not answer: timed out"):
            registry.latest(SUBJECT)
    assert len(server.asked) <= 1
    server.gate.set()
    clock.block(UNAVAILABLE_S + 1)
    with pytest.raises(SchemaMissingError):
        registry.latest(SUBJECT)


def test_a_registry_that_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RegistryUnavailableError, match=r"does not answer.*check that it runs"):
        SchemaRegistry(RegistrySettings(url=f"http://127.0.0.1:{port}")).latest(SUBJECT)


@pytest.mark.parametrize(
    ("status", "content", "error", "said"),
    [
        (200, b"<html>", RegistryUnavailableError, "no schema registry: check the address"),
        (200, b"[]", RegistryError, "an answer of another kind"),
        (200, b"[" * 100_000, RegistryUnavailableError, "no schema registry"),
        (404, b"<html>", RegistryError, "no such interface"),
        (500, b'{"error_code": 50001, "message": "store"}', RegistryUnavailableError, "store"),
        (302, b"", RegistryError, "HTTP status 302"),
        (200, b" " * (8 * 1024 * 1024 + 1), RegistryUnavailableError, "more than 8388608 bytes"),
    ],
)
def test_answers_that_are_none_are_told(
    server: Registry, status: int, content: bytes, error: type[Exception], said: str
) -> None:
    server.answer = (status, content)
    with pytest.raises(error, match=said):
        client(server).latest(SUBJECT)


@pytest.mark.parametrize(
    "url", ["registry:8081", "ftp://a", "http://", "http://u:p@a", "http://a:x"]
)
def test_addresses_that_cannot_work_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"the schema registry|a schema registry"):
        registry_settings(url)


def test_the_environment_says_where_the_registry_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry_settings() is None
    monkeypatch.setenv("POCKETMQ_SCHEMA_REGISTRY", "http://a:8081")
    monkeypatch.setenv("POCKETMQ_SCHEMA_REGISTRY_USER", "ann:secret")
    assert registry_settings() == RegistrySettings(url="http://a:8081", user="ann:secret")
    monkeypatch.setenv("POCKETMQ_SCHEMA_REGISTRY_TOKEN", "t")
    with pytest.raises(ConfigError, match="not both"):
        registry_settings("http://b")


def test_threads_share_a_client(server: Registry) -> None:
    number = client(server).register(SUBJECT, PLAIN)
    registry, found = client(server), []

    def ask() -> None:
        found.append(registry.schema(number))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8


# -- bodies -------------------------------------------------------------------------------------


def test_old_and_new_bodies_become_values_of_the_readers_schema(server: Registry) -> None:
    registry = client(server)
    old = Serializer.registered(registry, SUBJECT, PLAIN).encode({"id": 1})
    new = Serializer.registered(registry, SUBJECT, NEWER).encode({"id": 2, "channel": "shop"})
    assert old[:5] == b"\0\0\0\0\x01"
    assert new[:5] == b"\0\0\0\0\x02"
    reading = Deserializer(client(server), reader=NEWER)
    assert reading.decode(old) == {"id": 1, "channel": "web"}
    assert reading.decode(new) == {"id": 2, "channel": "shop"}
    assert Deserializer(registry, reader=PLAIN).decode(new) == {"id": 2}
    assert Deserializer(registry).decode(old) == {"id": 1}


def test_a_serializer_takes_the_newest_schema_or_one_that_is_there(server: Registry) -> None:
    registry = client(server)
    with pytest.raises(SchemaMissingError):
        Serializer.registered(registry, SUBJECT)
    with pytest.raises(SchemaMissingError):
        Serializer.registered(registry, SUBJECT, PLAIN, registers=False)
    registry.register(SUBJECT, PLAIN)
    assert Serializer.registered(registry, SUBJECT).schema_id == 1
    assert Serializer.registered(registry, SUBJECT, PLAIN, registers=False).schema_id == 1


def test_a_schema_that_cannot_be_used_is_not_registered(server: Registry) -> None:
    unusable = Schema('{"type": "array", "items": "null"}')
    with pytest.raises(SchemaError, match="take no bytes"):
        Serializer.registered(client(server), SUBJECT, unusable)
    assert server.asked == []


def test_protobuf_by_id_and_message_type(server: Registry) -> None:
    registry = client(server)
    serializer = Serializer.registered(registry, SUBJECT, PROTO, message="shop.Order")
    body = serializer.encode({"id": 7})
    assert body == b"\0\0\0\0\x01" + b"\x02\x02" + b"\x08\x07"
    assert Deserializer(registry).decode(body) == {"id": 7}


def test_bodies_without_a_frame_need_their_schema() -> None:
    body = Serializer(PLAIN).encode({"id": 7})
    assert body == b"\x0e"
    assert Deserializer(writer=PLAIN, reader=NEWER).decode(body) == {"id": 7, "channel": "web"}
    other = Serializer(PROTO, message="shop.Order").encode({"id": 7})
    assert Deserializer(writer=PROTO, message="shop.Order").decode(other) == {"id": 7}


def test_what_does_not_fit_is_told(server: Registry) -> None:
    registry = client(server)
    serializer = Serializer.registered(registry, SUBJECT, PLAIN)
    with pytest.raises(ValueMismatchError, match="id"):
        serializer.encode({"id": "seven"})
    reading = Deserializer(registry)
    with pytest.raises(BodyError, match="has no frame"):
        reading.decode(b'{"id": 7}')
    with pytest.raises(SchemaMissingError):
        reading.decode(b"\0\0\0\0\x63\x0e")
    with pytest.raises(SchemaError, match="different languages"):
        Deserializer(registry, reader=PROTO).decode(serializer.encode({"id": 1}))
    with pytest.raises(SchemaError, match="give a registry"):
        Deserializer()


def test_json_schema_is_read(server: Registry) -> None:
    registry = client(server)
    number = registry.register(SUBJECT, Schema('{"type": "object"}', SchemaType.JSON))
    body = b"\0" + number.to_bytes(4, "big") + b'{"id": 7}'
    assert Deserializer(registry).decode(body) == {"id": 7}
    with pytest.raises(SchemaError, match="not written by JSON Schema"):
        Serializer.registered(registry, SUBJECT).encode({"id": 7})


# -- beside Confluent's client ------------------------------------------------------------------


@pytest.fixture
def confluent(server: Registry) -> Any:
    module = pytest.importorskip("confluent_kafka.schema_registry")
    return module.SchemaRegistryClient({"url": server.url})


def test_the_server_of_these_tests_speaks_to_confluents_client(
    server: Registry, confluent: Any
) -> None:
    from confluent_kafka.schema_registry import Schema as Theirs
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    number = confluent.register_schema(SUBJECT, Theirs(PLAIN.text, "AVRO"))
    assert number == client(server).lookup(SUBJECT, PLAIN).id
    assert confluent.get_latest_version(SUBJECT).schema_id == number
    assert not confluent.test_compatibility(SUBJECT, Theirs(BROKEN.text, "AVRO"))
    with pytest.raises(SchemaRegistryError) as e:
        confluent.register_schema(SUBJECT, Theirs(BROKEN.text, "AVRO"))
    assert (e.value.http_status_code, e.value.error_code) == (409, 409)
    with pytest.raises(SchemaRegistryError) as e:
        confluent.get_latest_version("gone")
    assert e.value.error_code == 40401
    confluent.set_compatibility(SUBJECT, level="NONE")
    assert confluent.register_schema(SUBJECT, Theirs(BROKEN.text, "AVRO")) == number + 1


def test_confluents_serializers_read_and_write_the_same_bodies(
    server: Registry, confluent: Any
) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("Orders", MessageField.VALUE)
    assert value_subject("Orders") == SUBJECT
    theirs = AvroSerializer(confluent, PLAIN.text)({"id": 7}, context)
    registry = client(server)
    assert Serializer.registered(registry, SUBJECT, PLAIN).encode({"id": 7}) == theirs
    assert Deserializer(registry).decode(theirs) == {"id": 7}
    assert AvroDeserializer(confluent)(theirs, context) == {"id": 7}
