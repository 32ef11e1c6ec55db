"""The decoder of bodies in Avro and Protobuf, by the schema of a registry or of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pocketmq.protocol.errors import ConfigError, ContentError
from pocketmq.runtime.clock import Clock
from pocketmq.schemas.bodies import Deserializer
from pocketmq.schemas.framing import is_framed
from pocketmq.schemas.registry.registry import SchemaRegistry
from pocketmq.schemas.registry.settings import RegistrySettings, registry_settings
from pocketmq.schemas.schema_files import SchemaFile, read_schema_file

REGISTRY_TIMEOUT_S = 1.0
"""For so long the console waits for the registry: less than a decoder may take."""

SCHEMA_BODY_SIZE_MAX = 1024 * 1024
"""Bytes of a body that is read by a schema: by a short one it can have a million values."""


class SchemaOptions(NamedTuple):
    """Where the schemas of bodies are.

    Attributes:
        registry: has the schemas that frames of bodies name; None for none.
        files: the schemas of bodies without a frame, by topic.
    """

    registry: RegistrySettings | None
    files: Mapping[str, SchemaFile]


def schema_options(url: str = "", files: Sequence[str] = ()) -> SchemaOptions | None:
    """Reads where the schemas of bodies are; None for nowhere.

    Args:
        url: of the registry; by default that of the environment.
        files: ``TOPIC=FILE``, see `read_schema_file`.

    Raises:
        ConfigError: it cannot work.
        SchemaError: a file cannot be read.
    """
    by_topic: dict[str, SchemaFile] = {}
    for text in files:
        topic, found, path = text.partition("=")
        if not found or not topic or not path:
            raise ConfigError(f"{text!r} is not of the form TOPIC=FILE, as Orders=order.avsc")
        by_topic[topic] = read_schema_file(path)
    registry = registry_settings(url, REGISTRY_TIMEOUT_S)
    return SchemaOptions(registry, by_topic) if registry is not None or by_topic else None


class SchemaDecoder:
    """Decodes bodies in Avro and Protobuf.

    It is chosen for the topics that have a file, and for bodies that begin as a frame does.

    Args:
        options: where the schemas are.
        clock: tells how long failures of the registry are remembered.

    Raises:
        ConfigError: the registry's settings cannot work.
        SchemaError: a schema of a file cannot be used.
    """

    name = "schema"

    def __init__(self, options: SchemaOptions, clock: Clock) -> None:
        self._by_registry: Deserializer | None = None
        if options.registry is not None:
            registry = SchemaRegistry(options.registry, clock)
            self._by_registry = Deserializer(registry, is_careful=True)
        self._by_topic = {
            topic: Deserializer(writer=file.schema, message=file.message, is_careful=True)
            for topic, file in options.files.items()
        }

    def suits(self, body: bytes, topic: str, properties: Mapping[str, str]) -> bool:
        """Whether there is a schema for a body."""
        return topic in self._by_topic or (self._by_registry is not None and is_framed(body))

    def decode(self, body: bytes, topic: str, properties: Mapping[str, str]) -> object:
        """Returns the value of a body.

        Raises:
            ContentError: the body is too large, or does not fit its schema.
            SchemaError: the schema cannot be used.
            RegistryError: the registry does not have the schema, or does not answer.
        """
        if len(body) > SCHEMA_BODY_SIZE_MAX:
            raise ContentError(
                f"the body has {len(body)} bytes, and is read by a schema up to "
                f"{SCHEMA_BODY_SIZE_MAX}: look at it as text or hex"
            )
        reading = self._by_topic.get(topic) or self._by_registry
        if reading is None:
            raise ContentError(f"there is no file with a schema for topic {topic}")
        return reading.decode(body)
