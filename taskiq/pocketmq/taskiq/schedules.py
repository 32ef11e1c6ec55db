"""Tasks that run once at a time: timer messages, which wait in the broker."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from taskiq import ScheduledTask, ScheduleSource
from taskiq.kicker import AsyncKicker

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.recall_handle import parse_recall_handle
from pocketmq.taskiq.broker import PocketMQBroker, recall_handle
from pocketmq.taskiq.messages import DELIVER_AT


class TimerScheduleSource(ScheduleSource):
    """Schedules tasks for one time, without a scheduler that has to run::

        source = TimerScheduleSource(broker)
        created = await pay.schedule_by_time(source, tomorrow, 4711)
        await created.unschedule()

    The schedule's id is the recall handle of its message, so that any process can take it back.
    RocketMQ repeats nothing, and lists no timer messages: crons and intervals are for Taskiq's
    other sources. Times are up to three days ahead (the broker's timerMaxDelaySec).

    Args:
        broker: sends the tasks.
    """

    def __init__(self, broker: PocketMQBroker) -> None:
        self._broker = broker

    async def get_schedules(self) -> list[ScheduledTask]:
        """Returns none: a scheduler has nothing to do for tasks that wait in the broker."""
        return []

    async def add_schedule(self, schedule: ScheduledTask) -> None:
        """Sends a task that will run at a time; the schedule gets its recall handle as its id.

        Raises:
            UsageError: the schedule has no time.
            SendTaskError: the task was not sent; its cause says why.
        """
        if schedule.time is None:
            raise UsageError(
                "RocketMQ runs a task once, at a time: crons and intervals need a source of "
                "Taskiq, such as LabelScheduleSource, and a `taskiq scheduler`"
            )
        time = schedule.time if schedule.time.tzinfo else schedule.time.replace(tzinfo=UTC)
        labels = {**schedule.labels, DELIVER_AT: round(time.timestamp() * 1000)}
        kicker: AsyncKicker[Any, Any] = AsyncKicker(schedule.task_name, self._broker, labels)
        await kicker.with_task_id(schedule.task_id).kiq(*schedule.args, **schedule.kwargs)
        if (handle := recall_handle.get()) is not None:
            schedule.schedule_id = handle

    async def delete_schedule(self, schedule_id: str) -> None:
        """Takes a task back that has not run yet.

        Args:
            schedule_id: of the schedule, after it was added.

        Raises:
            UsageError: it is no recall handle.
            ResponseError: the broker has delivered the message already (code 604).
        """
        topic = parse_recall_handle(schedule_id).topic
        topic = self._broker.running().instance.namespace.unwrap(topic)
        await self._broker.running().producer.recall(topic, schedule_id)
