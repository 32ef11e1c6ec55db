"""A broker of Taskiq, so that its tasks run on RocketMQ: ``PocketMQBroker("127.0.0.1:9876")``.

Needs ``pip install 'pocketmq[taskiq]'``.
"""

from pocketmq.taskiq.broker import PocketMQBroker
from pocketmq.taskiq.redelivery import RedeliveryMiddleware
from pocketmq.taskiq.schedules import TimerScheduleSource

__all__ = ["PocketMQBroker", "RedeliveryMiddleware", "TimerScheduleSource"]
