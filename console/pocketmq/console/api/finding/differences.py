"""Compares two messages field by field, their decoded bodies included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from pocketmq.console.api.finding.bodies import Change, FieldDifference
from pocketmq.console.decoding.decoders import Decoded
from pocketmq.console.decoding.pointers import joined
from pocketmq.console.decoding.tree import tree_of
from pocketmq.protocol.messages.message import ReceivedMessage

FIELDS_MAX = 5_000
"""Members of each body that are compared."""

SHOWN_MAX = 500
"""Differences in one answer."""

DEPTH_MAX = 50
"""Levels of bodies; what is below is compared as one."""

VALUE_LENGTH_MAX = 500
"""Characters of a value in an answer."""

_Fields = dict[str, object]


def envelope(message: ReceivedMessage) -> _Fields:
    """The fields of a message without its body."""
    return {
        "topic": message.topic,
        "queue": f"{message.broker_name}:{message.queue_id}",
        "offset": message.queue_offset,
        "msgId": message.msg_id,
        "born": message.born_timestamp,
        "stored": message.store_timestamp,
        "bornHost": message.born_host,
        "reconsumeTimes": message.reconsume_times,
        "flag": message.flag,
        **{f"properties/{name}": value for name, value in sorted(message.properties.items())},
    }


def content(decoded: Decoded) -> tuple[_Fields, bool]:
    """The members of a decoded body by their places, and whether there are more than these."""
    members = _leaves(decoded.value, "", 0)
    fields = {f"body{place}": value for place, value in islice(members, FIELDS_MAX)}
    return fields, next(members, None) is not None


def _leaves(value: object, place: str, depth: int) -> Iterator[tuple[str, object]]:
    is_open = isinstance(value, (Mapping, list, tuple)) and len(value) > 0
    if not is_open or depth == DEPTH_MAX:
        yield place, value
        return
    assert isinstance(value, (Mapping, list, tuple))
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, item in items:
        yield from _leaves(item, joined(place, str(key)), depth + 1)


def differences(here: _Fields, there: _Fields) -> tuple[list[FieldDifference], int]:
    """Compares fields.

    Returns:
        those that differ, in the order of the first message, and how many are the same.
    """
    found, same = [], 0
    for name in [*here, *(name for name in there if name not in here)]:
        change = _change(name, here, there)
        if change == "same":
            same += 1
            continue
        found.append(
            FieldDifference(
                field=_shortened(name),
                change=change,
                here=_text(here[name]) if name in here else None,
                there=_text(there[name]) if name in there else None,
            )
        )
    return found, same


def _change(name: str, here: _Fields, there: _Fields) -> Change:
    if name not in there:
        return "only here"
    if name not in here:
        return "only there"
    one, other = here[name], there[name]
    # 1, 1.0 and true are equal in Python, and not in a body.
    return "same" if type(one) is type(other) and one == other else "changed"


def _text(value: object) -> str:
    node = tree_of(value)
    if node.is_open:
        return f"{node.kind} of {node.size}"
    return _shortened(str(node.text))


def _shortened(text: str) -> str:
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}…"
