"""The messages of messaging.proto, as classes; messaging_pb2.pyi says which.

They live in a pool of their own: Apache's SDK for Python, perhaps in the same process, has messages
of the same names in the default pool.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    timestamp_pb2,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper


def _load(names: dict[str, Any]) -> None:
    pool = descriptor_pool.DescriptorPool()
    for known in (duration_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    data = resources.files(__package__).joinpath("messaging.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file.SerializeToString())
        descriptor = pool.FindFileByName(file.name)
        names["DESCRIPTOR"] = descriptor
        for enum in descriptor.enum_types_by_name.values():
            names[enum.name] = EnumTypeWrapper(enum)
            names.update({value.name: value.number for value in enum.values})
        for message in descriptor.message_types_by_name.values():
            names[message.name] = message_factory.GetMessageClass(message)


_load(globals())
