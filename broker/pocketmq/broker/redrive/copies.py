"""Makes of a dead letter the message that is sent again, with its edits and marks."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from pocketmq.broker.appending.stored_message import StoredMessage
from pocketmq.broker.redrive.letters import DeadLetter
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.redrives import TO_GROUP, LetterEdit, RedriveOrder
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.messages import properties as props

OF_THE_ATTEMPTS = (
    props.DELAY, props.WAIT, props.RECONSUME_TIME, props.MAX_RECONSUME_TIMES, props.POP_CK,
    props.REAL_TOPIC, props.REAL_QUEUE_ID, props.TRANSACTION_PREPARED, props.MIN_OFFSET,
    props.MAX_OFFSET, *props.TIMER_PROPERTIES, props.TIMER_OUT_MS, props.TIMER_ENQUEUE_MS,
    props.TIMER_DEQUEUE_MS,
)  # fmt: skip
"""Properties that say how the message came to the dead letters, or would hold it back again."""

OF_THE_GROUP = (
    props.RETRY_TOPIC, props.ORIGIN_MESSAGE_ID, props.ORIGIN_GROUP, props.FIRST_POP_TIME,
)  # fmt: skip
"""Properties of the group's own attempts, which mean nothing to other readers of a topic."""

PATCH_DEPTH_MAX = 100
"""Objects within each other that a merge patch may have."""


class LetterRefusedError(Exception):
    """A dead letter cannot be sent as the order wants it; the text says why."""


class Copies:
    """Makes copies of dead letters for an order.

    Args:
        order: what is to be done.
        broker_name, store_host: of the broker; the host encoded.
        body_size_max: bytes that a body may have (maxMessageSize).

    Raises:
        UsageError: the order's edit cannot be understood.
    """

    def __init__(
        self, order: RedriveOrder, broker_name: str, store_host: bytes, body_size_max: int
    ) -> None:
        self._order, self._broker_name = order, broker_name
        self._store_host, self._body_size_max = store_host, body_size_max
        self._body = _new_body(order.edit)
        self._patch = _patch(order.edit)

    def copy(self, letter: DeadLetter, redrive_id: str) -> StoredMessage:
        """Makes the copy.

        Raises:
            LetterRefusedError: the dead letter cannot be sent.
        """
        order, message = self._order, letter.message
        if letter.redrive_count >= order.redrives_max > 0:
            raise LetterRefusedError(
                f"it was sent again {letter.redrive_count} times already, redrivesMax is "
                f"{order.redrives_max}: look why it fails before it is sent once more"
            )
        is_edited = not order.edit.is_empty
        body, sys_flag = message.body, message.sys_flag
        if self._body is not None or self._patch is not None:
            body = self._edited(letter)
            sys_flag &= ~(flags.COMPRESSED | flags.COMPRESSION_MASK)
        if len(body) > self._body_size_max:
            raise LetterRefusedError(
                f"its body has {len(body)} bytes, maxMessageSize of this broker is "
                f"{self._body_size_max}"
            )
        copy = message._replace(
            body=body, sys_flag=sys_flag, reconsume_times=0, store_host=self._store_host
        )
        copy = copy.with_changes(self._changes(letter, redrive_id, is_edited))
        if len(copy.properties) > props.PROPERTIES_SIZE_MAX:
            raise LetterRefusedError(
                f"its properties would have {len(copy.properties)} bytes, the limit is "
                f"{props.PROPERTIES_SIZE_MAX}"
            )
        return copy

    def _changes(
        self, letter: DeadLetter, redrive_id: str, is_edited: bool
    ) -> dict[str, str | None]:
        order, edit = self._order, self._order.edit
        gone = OF_THE_ATTEMPTS if order.to == TO_GROUP else (*OF_THE_ATTEMPTS, *OF_THE_GROUP)
        changes: dict[str, str | None] = dict.fromkeys(gone)
        changes.update(edit.properties)
        changes.update(dict.fromkeys(edit.removed_properties))
        if edit.tags is not None:
            changes[props.TAGS] = edit.tags or None
        if edit.keys is not None:
            changes[props.KEYS] = edit.keys or None
        changes[props.REDRIVE_ID] = redrive_id
        changes[props.REDRIVE_COUNT] = str(letter.redrive_count + 1)
        changes[props.REDRIVE_FROM] = place_of(self._broker_name, letter.queue_id, letter.offset)
        changes[props.REDRIVE_EDITED] = "true" if is_edited else None
        return changes

    def _edited(self, letter: DeadLetter) -> bytes:
        if self._body is not None:
            return self._body
        try:
            found = msgspec.json.decode(letter.body())
        except ContentError as e:
            raise LetterRefusedError(str(e)) from e
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
            raise LetterRefusedError(
                f"its body is no JSON, which a merge patch needs ({e}): replace the whole body"
            ) from e
        return msgspec.json.encode(merged(found, self._patch))


def place_of(broker_name: str, queue_id: int, offset: int) -> str:
    """Names the place of a dead letter, for the property of its copy."""
    return f"{broker_name}:{queue_id}:{offset}"


def place_in(message: StoredMessage, redrive_id: str, broker_name: str) -> tuple[int, int] | None:
    """Queue id and offset of the dead letter that a message was copied from by a redrive."""
    text = message.text
    if props.value_of(text, props.REDRIVE_ID) != redrive_id:
        return None
    name, *numbers = (props.value_of(text, props.REDRIVE_FROM) or "").rsplit(":", 2)
    if name != broker_name or len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
        return None
    return int(numbers[0]), int(numbers[1])


def merged(value: Any, patch: Any) -> Any:
    """Applies a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            out.pop(name, None)
        else:
            out[name] = merged(out.get(name), part)
    return out


def _new_body(edit: LetterEdit) -> bytes | None:
    given = [v for v in (edit.body, edit.body_base64, edit.merge_patch) if v is not None]
    if len(given) > 1:
        raise UsageError("an edit gives one of body, bodyBase64 and mergePatch, not several")
    if edit.body is not None:
        return edit.body.encode()
    if edit.body_base64 is None:
        return None
    try:
        return base64.b64decode(edit.body_base64, validate=True)
    except binascii.Error as e:
        raise UsageError(f"bodyBase64 of the edit is no base64: {e}") from e


def _patch(edit: LetterEdit) -> dict[str, Any] | None:
    """Reads the merge patch, and checks the properties that are set.

    Raises:
        UsageError: they cannot be used.
    """
    props.encode(edit.properties)  # refuses separators
    for name, value in (("tags", edit.tags), ("keys", edit.keys)):
        props.encode({name: value or ""})
    for name in edit.properties:
        if name.startswith("PQ_REDRIVE_"):
            raise UsageError(f"the property {name} is set by the redrive itself")
    if edit.merge_patch is None:
        return None
    try:
        patch = msgspec.json.decode(edit.merge_patch, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as e:
        raise UsageError(f"the merge patch is no JSON object: {e}") from e
    if _depth(patch) > PATCH_DEPTH_MAX:
        raise UsageError(f"the merge patch has more than {PATCH_DEPTH_MAX} objects in each other")
    return patch


def _depth(patch: object) -> int:
    depth, inner = 0, [patch]
    while inner and depth <= PATCH_DEPTH_MAX:
        depth += 1
        inner = [v for part in inner if isinstance(part, dict) for v in part.values()]
    return depth
