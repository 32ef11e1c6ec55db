"""Bodies in Avro and Protobuf as JSON, for `pocketmq tail`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pocketmq.cli.output import note
from pocketmq.protocol.errors import UsageError

if TYPE_CHECKING:
    from pocketmq.cli.pipes.message_format import MessageFormat
    from pocketmq.protocol.messages.message import ReceivedMessage

DecodeOption = Annotated[
    bool,
    typer.Option("--decode", help="Write bodies in Avro and Protobuf as JSON, by the registry."),
]
SchemaOption = Annotated[
    str | None,
    typer.Option(help="File with the schema to decode by: .avsc, .proto, .proto:MESSAGE."),
]
RegistryOption = Annotated[
    str | None,
    typer.Option(help="Address of the schema registry; or set POCKETMQ_SCHEMA_REGISTRY."),
]


def decoding_format(
    written: MessageFormat, *, decode: bool, schema: str | None, registry: str | None
) -> MessageFormat:
    """Returns a format whose bodies are decoded, if an option asks for that; else the format.

    A body that cannot be decoded is written as it is, with a line on standard error.

    Args:
        written: the format of decoded messages.
        decode, schema, registry: the options.

    Raises:
        UsageError: the options do not say by which schema.
        SchemaError: the schema cannot be read, or cannot be used.
    """
    if not (decode or schema or registry):
        return written
    from pocketmq.schemas import (
        BodyError,
        Deserializer,
        SchemaError,
        SchemaMissingError,
        SchemaRegistry,
        read_schema_file,
        registry_settings,
    )

    settings = registry_settings(registry)
    file = None if schema is None else read_schema_file(schema)
    if settings is not None:
        deserializer = Deserializer(
            SchemaRegistry(settings),
            reader=file and file.schema,
            message=file and file.message,
        )
    elif file is not None:
        deserializer = Deserializer(writer=file.schema, message=file.message)
    else:
        raise UsageError(
            "--decode needs schemas: give --schema-registry URL (or set POCKETMQ_SCHEMA_REGISTRY), "
            "or --schema FILE for bodies without a registry's frame"
        )

    def decoded(message: ReceivedMessage) -> bytes:
        try:
            value = deserializer.decode(bytes(message.body))
        except (BodyError, SchemaError, SchemaMissingError) as e:
            place = f"{message.broker_name}:{message.queue_id}"
            note(f"{message.topic} {place} {message.queue_offset}: {e}; written as it is")
        else:
            message.body = msgspec.json.encode(value, enc_hook=str)
        return written(message)

    return decoded
