"""Where namespaces meet the wire: inside the client, names are the application's.

Put in are the names in the headers of all requests (here), and in the bodies that hold some:
heartbeats (`heartbeat.InstanceGroups`), checks of subscriptions (`subscription_check`), locks
(`queue_locks`) and the answers to brokers (`broker_requests`). Taken out are those of
messages (`take_out`) and of what brokers ask (`broker_requests`, `instance.ClientInstance`).
"""

from __future__ import annotations

import msgspec

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.namespaces import Namespace, request_fields
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import name_fields
from pocketmq.transport.connection import BeforeRequest


def namespacing(namespace: Namespace, namespace_v2: str) -> tuple[BeforeRequest, ...]:
    """Returns the functions that wrap the names of each request: none without a namespace.

    Args:
        namespace: of version 1.
        namespace_v2: of version 2; empty for none.
    """
    fields = request_fields(namespace_v2)
    if not namespace and not fields:
        return ()

    def before_request(command: Command) -> None:
        header = command.header
        if header is not None and namespace:
            topics, groups = name_fields(type(header))
            names = {field: getattr(header, field) for field in topics + groups}
            # A copy: the sender may send the same header again, to another broker.
            command.header = msgspec.structs.replace(
                header, **{field: namespace.wrap(name) for field, name in names.items() if name}
            )
        if fields:
            command.extra = {**(command.extra or {}), **fields}

    return (before_request,)


def take_out(namespace: Namespace, message: ReceivedMessage) -> None:
    """Takes the namespace out of a message's topics, as `resetRetryAndNamespace` does."""
    message.topic = namespace.unwrap(message.topic)
    origin = message.properties.get(props.RETRY_TOPIC)
    if origin is not None:
        message.properties[props.RETRY_TOPIC] = namespace.unwrap(origin)
