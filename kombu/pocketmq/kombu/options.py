"""What users set: kombu's ``transport_options``, and the URL of the broker."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from pocketmq.client.consumers.priority_topics import Priorities
from pocketmq.client.settings import InvisibleTime, NotNegative, Positive, take_settings
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials

DEFAULT_PORT = 9876
DAY_MS = 24 * 3600 * 1000
ALIKE_MIN = 0.8
"""How alike an unknown option must be to one of these to be taken for a slip of the pen."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The transport options that are this transport's own.

    Attributes:
        queue_name_prefix: put before the names of queues and exchanges.
        cluster: where topics and groups are created; needed only if there are several clusters.
        queues_per_topic: queues on each broker of a topic that the transport creates. All workers
            pop from all of them; with one, messages of a broker come in the order of sending.
        invisible_ms: for how long other workers do not get a message that one has; it is renewed
            until the message is acknowledged, so this is how long tasks of a killed worker wait.
        redeliveries_max: how often a message comes again before it becomes a dead letter.
        native_delay: messages with Celery's header ``eta`` wait in the broker, not in a worker.
        delay_ms_max: the longest that a message waits in the broker (timerMaxDelaySec); a worker
            waits for the rest.
        priority_steps: the priorities that have a topic of their own; (0,) for no priorities.
        fanout_exchanges: exchanges that copy to all their queues, however they are declared.
        client: further settings of the client (`InstanceSettings`).
    """

    queue_name_prefix: str = ""
    cluster: str = ""
    queues_per_topic: Positive = 1
    invisible_ms: InvisibleTime = 60_000
    redeliveries_max: NotNegative = 16
    native_delay: bool = True
    delay_ms_max: NotNegative = 3 * DAY_MS
    priority_steps: Priorities = (0,)
    fanout_exchanges: tuple[str, ...] = ("celeryev",)
    client: dict[str, Any] = msgspec.field(default_factory=dict)


def read_options(given: Mapping[str, Any]) -> Options:
    """Reads the transport options; those of kombu and Celery among them are left alone.

    Raises:
        ConfigError: a value does not fit, or a name is nearly that of an option.
    """
    own = {name: value for name, value in given.items() if name in Options.__struct_fields__}
    for name in given:
        near = difflib.get_close_matches(name, Options.__struct_fields__, 1, ALIKE_MIN)
        if near and name not in own:
            raise ConfigError(f"no such transport option: {name!r} (did you mean {near[0]!r}?)")
    return take_settings(Options, own)[0]


class Address(NamedTuple):
    """What the URL of a broker tells: name servers, and settings of the client."""

    namesrv: list[str]
    settings: dict[str, Any]


def read_address(hostname: str, port: int | None = None) -> Address:
    """Reads ``pocketmq://[accessKey:secretKey@]host[:port][,host[:port]…][/namespace]``.

    Args:
        hostname: the URL, or a host alone.
        port: of hosts that name none.

    Raises:
        ConfigError: it names no host.
    """
    url = urlsplit(hostname if "://" in hostname else f"pocketmq://{hostname}")
    user, _, hosts = url.netloc.rpartition("@")
    namesrv = [
        host if ":" in host else f"{host}:{port or DEFAULT_PORT}"
        for host in hosts.split(",")
        if host
    ]
    if not namesrv:
        raise ConfigError(
            "the URL of the broker names no host: it is "
            "pocketmq://[accessKey:secretKey@]host[:port][,host[:port]...][/namespace]"
        )
    settings: dict[str, Any] = {}
    if user:
        access_key, _, secret_key = user.partition(":")
        settings["credentials"] = Credentials(unquote(access_key), unquote(secret_key))
    if namespace := unquote(url.path.strip("/")):
        settings["namespace"] = namespace
    return Address(namesrv, settings)
