"""Orders as brokers read them, and plans as one word that starts them."""

from __future__ import annotations

import base64
import binascii
import hashlib

import msgspec
from msgspec import structs

from pocketmq.client.admin.dead_letters import new_redrive_id
from pocketmq.console.api.redrives.order_bodies import Order
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.bodies.redrives import (
    LetterEdit,
    LetterSelection,
    RedriveOrder,
    RedrivePlan,
)
from pocketmq.protocol.errors import UsageError


class _Part(msgspec.Struct, array_like=True):
    """What one broker has planned."""

    broker: str
    plan_id: str
    count: int
    ends: dict[str, int]


class _Word(msgspec.Struct, array_like=True):
    """What a plan's word holds: all brokers check it, so nobody has to keep it."""

    redrive_id: str
    digest: str
    parts: list[_Part]


def order_of(group: str, order: Order) -> RedriveOrder:
    """Makes the order for the brokers.

    Args:
        group: the group that failed.
        order: of the request.
    """
    chosen, edit = structs.asdict(order.selection), structs.asdict(order.edit)
    patch = order.edit.merge_patch
    edit["merge_patch"] = None if patch is None else msgspec.json.encode(patch).decode()
    message_ids, queue_id = chosen.pop("ids"), chosen.pop("queue")
    return RedriveOrder(
        group=group,
        action=order.action,
        selection=LetterSelection(message_ids=message_ids, queue_id=queue_id, **chosen),
        to=order.to,
        edit=LetterEdit(**edit),
        rate=order.rate,
        failures_max=order.failures_max,
        redrives_max=order.redrives_max,
        reason=order.reason,
    )


def word_of(order: RedriveOrder, plans: list[RedrivePlan]) -> tuple[str, str]:
    """Makes the word for plans, and the id that the redrive will have.

    The id is in the word: the same start twice is one redrive.
    """
    redrive_id = new_redrive_id()
    parts = [_Part(p.broker_name, p.plan_id, p.count, p.ends) for p in plans if p.count]
    text = msgspec.json.encode(_Word(redrive_id, _digest(order), parts))
    return base64.urlsafe_b64encode(text).decode(), redrive_id


def plans_of(order: RedriveOrder, word: str) -> tuple[list[RedrivePlan], str]:
    """Reads the plans and the id of the redrive from a word.

    Raises:
        UsageError: it is no such word.
        ProblemError: 409, it is of another order.
    """
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(word), type=_Word)
    except (ValueError, binascii.Error) as e:
        raise UsageError("the plan is none of this API: plan the order first") from e
    if found.digest != _digest(order):
        raise ProblemError(
            409,
            "The plan is of another order",
            "the order has changed since it was planned: nothing was done",
            "look at what it would do now, and start that",
        )
    plans = [
        RedrivePlan(
            broker_name=part.broker, order=order, plan_id=part.plan_id, ends=part.ends,
            count=part.count, scanned=0, bytes=0,
        )
        for part in found.parts
    ]  # fmt: skip
    return plans, found.redrive_id


def _digest(order: RedriveOrder) -> str:
    return hashlib.sha256(order.encode(quote_keys=True)).hexdigest()[:32]
