"""Bodies of JSON as Avro and Protobuf, for `pocketmq produce`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pocketmq.protocol.errors import UsageError

if TYPE_CHECKING:
    from pocketmq.protocol.messages.message_json import MessageDocument
    from pocketmq.schemas import Serializer

WriterSchemaOption = Annotated[
    str | None,
    typer.Option(
        help="File with the schema by which JSON becomes bodies: .avsc, .proto, .proto:MESSAGE."
    ),
]
SubjectOption = Annotated[
    str | None,
    typer.Option(help="Subject of the schema registry; by default TOPIC-value."),
]


def serializer_of(
    topic: str, *, schema: str | None, subject: str | None, registry: str | None
) -> Serializer | None:
    """Makes what encodes bodies, if an option asks for that; registers the schema of a file.

    Args:
        topic: the bodies' topic.
        schema, subject, registry: the options.

    Raises:
        UsageError: the options do not say by which schema.
        SchemaError: the schema cannot be read, or cannot be used.
        RegistryError: the registry refuses, or does not answer.
    """
    if not (schema or subject or registry):
        return None
    from pocketmq.schemas import (
        SchemaRegistry,
        Serializer,
        read_schema_file,
        registry_settings,
        value_subject,
    )

    file = None if schema is None else read_schema_file(schema)
    settings = registry_settings(registry)
    if settings is not None:
        return Serializer.registered(
            SchemaRegistry(settings),
            subject or value_subject(topic),
            file and file.schema,
            message=file and file.message,
        )
    if file is None or subject is not None:
        raise UsageError(
            "--subject is of a schema registry: give --schema-registry URL, or set "
            "POCKETMQ_SCHEMA_REGISTRY"
        )
    return Serializer(file.schema, message=file.message)


def encode(document: MessageDocument, serializer: Serializer) -> None:
    """Makes the body of a document, which is JSON, one of a schema.

    Raises:
        UsageError: the body is no JSON.
        ValueMismatchError: it does not fit the schema.
    """
    try:
        value = msgspec.json.decode(document.content)
    except (ValueError, RecursionError) as e:
        raise UsageError(f"the body is no JSON, which a schema needs: {e}") from e
    document.body = None
    document.body_base64 = base64.b64encode(serializer.encode(value)).decode()
