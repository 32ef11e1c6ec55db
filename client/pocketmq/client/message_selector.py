"""The choice of a topic's messages that a consumer wants: by tags, or by their properties."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.bodies.clients import SQL92, SUBSCRIBE_ALL, TAG, Subscription
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.filters import compile_filter


class MessageSelector(msgspec.Struct, frozen=True):
    """Selects messages for a subscription (`client/consumer/MessageSelector`)::

        consumer.subscribe("Orders", MessageSelector.by_sql("amount > 100 AND region = 'eu'"))

    Wherever one is asked for, a string may stand for `by_tag` of it.

    Attributes:
        expression: what messages must fulfil.
        expression_type: TAG or SQL92.

    Raises:
        FilterSyntaxError: `expression` is no SQL92; the text names the wrong position.
        UsageError: `expression_type` is neither of the two.
    """

    expression: str = SUBSCRIBE_ALL
    expression_type: str = TAG

    def __post_init__(self) -> None:
        compile_filter(self.expression_type, self.expression)

    @classmethod
    def by_tag(cls, expression: str) -> MessageSelector:
        """Selects messages with one of some tags, as in ``"TagA || TagB"``; ``"*"`` takes all."""
        return cls(expression)

    @classmethod
    def by_sql(cls, expression: str) -> MessageSelector:
        """Selects messages whose properties fulfil a SQL92 condition, as in ``"a > 5"``.

        The broker evaluates it; RocketMQ's needs ``enablePropertyFilter=true`` for that.

        Raises:
            FilterSyntaxError: it is no such condition, or an expression whose end RocketMQ would
                ignore, such as ``"a LIKE 'x'"``; the text names the wrong position.
        """
        return cls(expression, SQL92)

    def subscription(self, topic: str, version_ms: int) -> Subscription:
        """Returns the subscription as brokers know it.

        Args:
            topic: the topic subscribed to.
            version_ms: when the subscription was made.
        """
        make = Subscription.of_sql if self.expression_type == SQL92 else Subscription.of_tags
        return make(topic, self.expression, version_ms)


Expression = str | MessageSelector | None
"""A string stands for tags, None for all messages."""


def subscription_of(topic: str, expression: Expression, version_ms: int) -> Subscription:
    """Returns a subscription to a topic.

    Args:
        topic: its name.
        expression: tags as a string, or a `MessageSelector`; None for all.
        version_ms: when the subscription was made.

    Raises:
        UsageError: it is none of these.
    """
    if expression is None or isinstance(expression, str):
        return Subscription.of_tags(topic, expression or SUBSCRIBE_ALL, version_ms)
    if not isinstance(expression, MessageSelector):
        raise UsageError(
            f"the expression {expression!r} is neither a string of tags nor a MessageSelector"
        )
    return expression.subscription(topic, version_ms)
