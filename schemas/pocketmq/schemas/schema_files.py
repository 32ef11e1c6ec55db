"""Schemas in files: ``order.avsc``, ``shop.proto``, ``shop.proto:shop.Order``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pocketmq.schemas.errors import SchemaError
from pocketmq.schemas.schema import SCHEMA_SIZE_MAX, Schema, SchemaType

SUFFIXES = {".avsc": SchemaType.AVRO, ".proto": SchemaType.PROTOBUF}


class SchemaFile(NamedTuple):
    """A schema that a file holds.

    Attributes:
        schema: the schema.
        message: the full name of the message type of Protobuf that is meant; None for the first.
    """

    schema: Schema
    message: str | None = None


def read_schema_file(name: str) -> SchemaFile:
    """Reads a schema.

    Args:
        name: the path, which ends with .avsc or .proto; after that of a file of Protobuf perhaps a
            colon and the full name of a message type.

    Raises:
        SchemaError: the file cannot be read, or its name does not tell the language.
    """
    path_text, message = name, None
    if ".proto:" in name:
        path_text, _, message = name.rpartition(":")
    path = Path(path_text)
    kind = SUFFIXES.get(path.suffix)
    if kind is None:
        raise SchemaError(
            f"{name}: a file with a schema ends with .avsc (Avro) or .proto (Protobuf; "
            f"shop.proto:shop.Order names the message type)"
        )
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(SCHEMA_SIZE_MAX + 1)
    except (OSError, UnicodeDecodeError) as e:
        raise SchemaError(f"the schema {path} cannot be read: {e}") from e
    schema = Schema(text, kind)
    schema.check()
    return SchemaFile(schema, message or None)
