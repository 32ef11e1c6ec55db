"""Where namespaces meet the wire: inside the client, names are the application's.

Put in are the names in the headers of all requests (here), and in the bodies that hold some:
heartbeats (`heartbeat.Groups`) and checks of subscriptions (`subscription_check`). Taken out are
those of pulled messages (`pulling.Puller`) and of notifications (`instance.ClientInstance`).
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from pocketmq.protocol.command import Command
from pocketmq.protocol.header import Header
from pocketmq.protocol.namespaces import Namespace, request_fields
from pocketmq.transport.connection import BeforeRequest

NAME_FIELDS = ("topic", "origin_topic", "group", "group_name", "producer_group", "consumer_group")
"""How the fields of headers are called that hold a topic or group."""


def namespacing(namespace: Namespace, namespace_v2: str) -> BeforeRequest | None:
    """What is done to each request; None when there is nothing to do.

    Args:
        namespace: of version 1.
        namespace_v2: of version 2; empty for none.
    """
    fields = request_fields(namespace_v2)
    if not namespace and not fields:
        return None

    def before_request(command: Command) -> None:
        header = command.header
        if header is not None and namespace:
            names = {f: getattr(header, f) for f in _name_fields(type(header))}
            # A copy: the sender may send the same header again, to another broker.
            command.header = msgspec.structs.replace(
                header, **{field: namespace.wrap(name) for field, name in names.items() if name}
            )
        if fields:
            command.extra = {**(command.extra or {}), **fields}

    return before_request


@lru_cache(maxsize=512)
def _name_fields(cls: type[Header]) -> tuple[str, ...]:
    return tuple(field for field in cls.__struct_fields__ if field in NAME_FIELDS)
