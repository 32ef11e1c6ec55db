"""Whether a subscription takes a message: as brokers and then members decide."""

from __future__ import annotations

import pytest

from pocketmq.client.explanation.passing import takes
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.messages.message import ReceivedMessage


def received(**properties: str) -> ReceivedMessage:
    message = ReceivedMessage()
    message.properties = properties
    return message


@pytest.mark.parametrize(
    ("expression", "tag", "is_taken"),
    [
        ("*", None, True),
        ("*", "new", True),
        ("", "new", True),
        ("paid || new", "new", True),
        ("paid||sent", "new", False),
        ("paid", None, False),
        ("Aa", "BB", False),  # of the same hash: the broker takes it, the member does not
    ],
)
def test_tags(expression: str, tag: str | None, is_taken: bool) -> None:
    message = received() if tag is None else received(TAGS=tag)
    assert takes(Subscription.of_tags("T", expression, 0), message) is is_taken


def test_expressions() -> None:
    dear = Subscription.of_sql("T", "amount > 10", 0)
    assert takes(dear, received(amount="11")) is True
    assert takes(dear, received(amount="7")) is False
    assert takes(dear, received()) is False
    assert takes(Subscription.of_sql("T", "amount >", 0), received()) is None
    odd = Subscription(topic="T", sub_string="x", expression_type="CLASS")
    assert takes(odd, received()) is None
