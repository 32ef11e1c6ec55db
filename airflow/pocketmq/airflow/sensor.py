"""The sensor of Airflow: a task that waits for a message without a worker's slot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator

from pocketmq.airflow.triggers import AwaitMessageTrigger


class MessageSensor(BaseSensorOperator):
    """Waits for one message of a topic in the triggerer; its document is the task's result::

        MessageSensor(task_id="order", topic="Orders", group="billing", expression="new")

    Args:
        topic, group, expression, conn_id, namesrv, invisible_ms: see `MessageTrigger`.
        settings: of all sensors, such as `timeout`.
    """

    template_fields: Sequence[str] = ("topic", "group", "expression", "conn_id", "namesrv")

    def __init__(
        self,
        *,
        topic: str,
        group: str,
        expression: str = "*",
        conn_id: str = "pocketmq_default",
        namesrv: str | None = None,
        invisible_ms: int = 60_000,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.topic, self.group, self.expression = topic, group, expression
        self.conn_id, self.namesrv, self.invisible_ms = conn_id, namesrv, invisible_ms

    def execute(self, context: Any) -> None:
        """Leaves the waiting to the triggerer."""
        trigger = AwaitMessageTrigger(
            self.topic, self.group, self.expression, self.conn_id, self.namesrv, self.invisible_ms
        )
        timeout = timedelta(seconds=self.timeout)
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Returns the message's document."""
        return event
