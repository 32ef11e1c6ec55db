"""The check whether brokers can serve the subscriptions of a consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.log_fields import log_fields
from pocketmq.protocol.bodies.clients import TAG, CheckClientConfigBody, Subscription
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.protocol.requests.clients import CheckClientConfigRequest

log = logging.getLogger("pocketmq.client")


async def check_subscriptions(
    group: str, instance: ClientInstance, subscriptions: Iterable[Subscription]
) -> None:
    """Asks the brokers of each topic (`MQClientInstance#checkClientInBroker`, request 46).

    Every broker takes tags, so only other subscriptions are asked about, unless the client has
    credentials: then a refusal is told now and not by pulls that bring nothing. A topic that does
    not exist yet has no brokers, and a broker that cannot be reached is left out: pulls will tell.

    Args:
        group: the consumer group.
        instance: the connections and routes; it must be running.
        subscriptions: to check.

    Raises:
        ResponseError: a broker does not serve it: the expression is wrong (23), or SQL92 is
            switched off there (1), or the user may not subscribe (16).
        NoNameServerError: the topic's brokers cannot be asked for.
    """
    is_user = instance.credentials is not None
    asked = [s for s in subscriptions if is_user or s.expression_type not in (None, TAG)]
    for subscription in asked:
        await instance.routes.subscribe(subscription.topic)
        wrap = instance.namespace.wrap
        body = CheckClientConfigBody(
            client_id=instance.client_id,
            group=wrap(group),
            subscription_data=msgspec.structs.replace(subscription, topic=wrap(subscription.topic)),
        ).encode()
        addresses = instance.routes.topic_addresses(subscription.topic)
        await asyncio.gather(*(_ask(group, instance, address, body) for address in addresses))


async def _ask(group: str, instance: ClientInstance, address: str, body: bytes) -> None:
    timeout_ms = instance.settings.call_timeout_ms
    try:
        await instance.pool.ask(address, CheckClientConfigRequest(), timeout_ms, body)
    except ResponseError:
        raise
    except OperatingError as e:
        about = log_fields(group)
        log.warning("group %s: its subscription is not checked: %s", group, e, extra=about)
