"""Which topics and groups stand for kombu's queues and exchanges."""

from __future__ import annotations

import re

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def entity_name(name: str, prefix: str = "") -> str:
    """Returns the topic, and the group, of a queue or of a fanout exchange.

    Characters that RocketMQ's names do not have become the ``%XX`` of their bytes, so that two
    queues never share a topic: ``celery@host`` is ``celery%40host``.

    Args:
        name: kombu's name.
        prefix: put before it.
    """
    return _ILLEGAL.sub(_escaped, prefix + name)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
