"""Bodies of messages by a schema: serializers make them of values, deserializers read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pocketmq.schemas.codecs import Codec, codec_of
from pocketmq.schemas.errors import BodyError, SchemaError, anew
from pocketmq.schemas.framing import framed, unframed
from pocketmq.schemas.registry.recent import Recent
from pocketmq.schemas.registry.registry import SchemaRegistry
from pocketmq.schemas.schema import Schema

CODECS_MAX = 200
"""Schemas of which a deserializer keeps what it has prepared, or why it could not."""

BODY_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of a body that becomes a value."""


def value_subject(topic: str) -> str:
    """Returns the subject of a topic's bodies, as Confluent's serializers name it by default."""
    return f"{topic}-value"


class Serializer:
    """Makes values bodies by one schema.

    Args:
        schema: the schema.
        schema_id: of the registry: it goes before each body, in a frame; None writes no frame, and
            consumers have to know the schema.
        references: all schemas that this one uses, by the names by which it does, each behind those
            that itself uses.
        message: the full name of the message type of Protobuf; by default the first of the file.

    Raises:
        SchemaError: the schema cannot be used, or what reads it is not installed.
    """

    def __init__(
        self,
        schema: Schema,
        schema_id: int | None = None,
        references: Mapping[str, Schema] | None = None,
        message: str | None = None,
    ) -> None:
        self.schema, self.schema_id = schema, schema_id
        self._codec = codec_of(schema, references or {}, message)

    @classmethod
    def registered(
        cls,
        registry: SchemaRegistry,
        subject: str,
        schema: Schema | None = None,
        *,
        message: str | None = None,
        registers: bool = True,
    ) -> Serializer:
        """Makes a serializer by a subject of the registry; waits for the registry.

        Args:
            registry: the registry.
            subject: such as `value_subject` of a topic.
            schema: becomes the newest of the subject unless it is there; None takes the newest.
            message: see the class.
            registers: whether a schema that the subject does not hold becomes its newest; if not,
                it is an error.

        Raises:
            IncompatibleSchemaError: the subject's compatibility level forbids the schema.
            SchemaMissingError: the subject holds no schema, or not this one.
            RegistryError: the registry refuses, or does not answer.
            SchemaError: the schema cannot be used.
        """
        if schema is None:
            newest = registry.latest(subject)
            references = dict(registry.references_of(newest.schema))
            return cls(newest.schema, newest.id, references, message)
        # What cannot be used is refused before the registry has it.
        made = cls(schema, 0, dict(registry.references_of(schema)), message)
        if registers:
            made.schema_id = registry.register(subject, schema)
        else:
            made.schema_id = registry.lookup(subject, schema).id
        return made

    def encode(self, value: object) -> bytes:
        """Makes a value a body.

        Raises:
            ValueMismatchError: the value does not fit the schema; the error names the field.
        """
        if self.schema_id is None:
            return self._codec.encode(value)
        return framed(self.schema_id, self._codec.encode_indexed(value))


class Deserializer:
    """Makes bodies values again.

    Args:
        registry: has the schemas that the frames of bodies name; None if bodies have no frame.
        writer: the schema of all bodies, if they have no frame.
        reader: the schema of the values, of the same language, however old or new the writer's is;
            by default that of the writer.
        references: of the writer's and the reader's schema, see `Serializer`.
        message: the full name of the message type of Protobuf in the reader's schema, or in the
            writer's if there is no reader's.
        is_careful: read Avro so that other threads go on meanwhile, which takes longer.

    Raises:
        SchemaError: a schema cannot be used, or what reads it is not installed.
    """

    def __init__(
        self,
        registry: SchemaRegistry | None = None,
        *,
        writer: Schema | None = None,
        reader: Schema | None = None,
        references: Mapping[str, Schema] | None = None,
        message: str | None = None,
        is_careful: bool = False,
    ) -> None:
        if (registry is None) == (writer is None):
            raise SchemaError("give a registry, or the schema of bodies without a frame")
        self._registry, self._is_careful = registry, is_careful
        references = references or {}
        self._reader = None if reader is None else codec_of(reader, references, message)
        self._codecs: Recent[int, Codec | SchemaError] = Recent(CODECS_MAX)
        self._writer: Codec | None = None
        if writer is not None:
            writer_message = message if reader is None else None
            self._writer = self._codec_of(writer, references, writer_message)

    def decode(self, body: bytes) -> Any:
        """Makes a body a value; waits for the registry if the schema is new to this object.

        Raises:
            BodyError: the body has no frame, or does not fit its schema.
            SchemaError: the schema cannot be used.
            SchemaMissingError: the registry does not have the schema.
            RegistryError: the registry refuses, or does not answer.
        """
        if len(body) > BODY_SIZE_MAX:
            raise BodyError(f"the body has {len(body)} bytes, and up to {BODY_SIZE_MAX} are read")
        if self._writer is not None:
            return self._writer.decode(body)
        schema_id, payload = unframed(body)
        codec = self._codecs.get(schema_id)
        if codec is None:
            codec = self._codecs.put(schema_id, self._registered(schema_id))
        if isinstance(codec, SchemaError):
            raise anew(codec)
        return codec.decode_indexed(payload)

    def _registered(self, schema_id: int) -> Codec | SchemaError:
        """Prepares a schema; one that cannot be used is remembered, too."""
        assert self._registry is not None
        try:
            schema = self._registry.schema(schema_id)
            return self._codec_of(schema, dict(self._registry.references_of(schema)), None)
        except SchemaError as e:
            return SchemaError(f"schema {schema_id} of the registry cannot be used: {e}")

    def _codec_of(
        self, schema: Schema, references: Mapping[str, Schema], message: str | None
    ) -> Codec:
        return codec_of(schema, references, message, self._reader, is_careful=self._is_careful)
