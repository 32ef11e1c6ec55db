"""The codec of a schema, by its language; only what that needs is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from pocketmq.schemas.errors import BodyError, SchemaError
from pocketmq.schemas.schema import Schema, SchemaType


class Codec(Protocol):
    """Writes values by a schema, and reads them.

    The indexed forms follow a frame: with Protobuf the place of the message type precedes them.
    """

    def encode(self, value: object) -> bytes: ...  # noqa: D102

    def encode_indexed(self, value: object) -> bytes: ...  # noqa: D102

    def decode(self, payload: bytes) -> Any: ...  # noqa: D102

    def decode_indexed(self, payload: bytes) -> Any: ...  # noqa: D102


def codec_of(
    schema: Schema,
    references: Mapping[str, Schema],
    message: str | None = None,
    reader: Codec | None = None,
    *,
    is_careful: bool = False,
) -> Codec:
    """Makes the codec of a schema.

    Args:
        schema: the writer's.
        references: all schemas that this one uses, by the names by which it does, each behind those
            that itself uses.
        message: the full name of the message type of Protobuf; by default the first of the file.
        reader: of the values that are read; by default the writer's own.
        is_careful: read Avro so that other threads go on meanwhile, which takes longer.

    Raises:
        SchemaError: the schema cannot be used, or what reads it is not installed.
    """
    schema.check()
    if schema.type is SchemaType.AVRO:
        try:
            from pocketmq.schemas.avro.codec import AvroCodec
        except ModuleNotFoundError as e:
            raise SchemaError(
                f"schemas of Avro need {e.name}, which is not installed: "
                f"pip install 'pocketmq[schemas]'"
            ) from e
        if message is not None:
            raise SchemaError(f"the schema is of Avro, which has no message type {message}")
        used = list(references.values())
        return AvroCodec(schema, used, _same(reader, AvroCodec), is_careful=is_careful)
    if schema.type is SchemaType.PROTOBUF:
        from pocketmq.schemas.protobuf.codec import ProtobufCodec

        return ProtobufCodec(schema, references, message, _same(reader, ProtobufCodec))
    return JsonCodec(schema, _same(reader, JsonCodec))


def _same(reader: Any, kind: type[Any]) -> Any:
    """Refuses a reader's schema in another language than the writer's."""
    if reader is not None and not isinstance(reader, kind):
        raise SchemaError("the schemas of writer and reader are of different languages")
    return reader


class JsonCodec:
    """Reads JSON; nothing is checked by the schema.

    Args:
        schema: of JSON Schema.
        reader: has no say.
    """

    def __init__(self, schema: Schema, reader: JsonCodec | None = None) -> None:
        self.schema = schema

    def encode(self, value: object) -> bytes:
        """Refuses: nobody would check that the value fits.

        Raises:
            SchemaError: always.
        """
        raise SchemaError("values are not written by JSON Schema: take Avro or Protobuf")

    encode_indexed = encode

    def decode(self, payload: bytes) -> Any:
        """Reads a value.

        Raises:
            BodyError: the bytes are no JSON.
        """
        try:
            return msgspec.json.decode(payload)
        except (ValueError, RecursionError) as e:
            raise BodyError(f"the body is no JSON, which its schema is for: {e}") from e

    decode_indexed = decode
