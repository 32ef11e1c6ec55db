"""The broker itself: its figures and its settings: 26, 28, 45."""

from __future__ import annotations

import msgspec

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.handlers.pull import PullHandlers
from pocketmq.broker.long_polling import LongPolling
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.groups import DelayOffsets
from pocketmq.protocol.bodies.topics import DataVersion, KVTable
from pocketmq.protocol.codes import RequestCode, ResponseCode, Version
from pocketmq.protocol.command import Command
from pocketmq.protocol.requests.topics import BrokerConfigResponse
from pocketmq.transport.clock import Clock
from pocketmq.transport.connection import Connection, Handler
from pocketmq.transport.settings import settings_text

NOTHING_WAITS = (
    *(
        f"{kind}ThreadPoolQueue{figure}"
        for kind in ("send", "pull", "ack")
        for figure in ("Size", "HeadWaitTimeMills")
    ),
    "pageCacheLockTimeMills",
)
"""What waits for a thread or a lock, as `mqadmin clusterList` prints it: here always 0."""


class AdminHandlers:
    """Tells what the broker does and how it is set up."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        schedule: Schedule,
        pulls: PullHandlers,
        polling: LongPolling,
    ) -> None:
        self._config, self._clock = config, clock
        self._store, self._schedule = store, schedule
        self._pulls, self._polling = pulls, polling
        self._started_ms = clock.now_ms()

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.GET_BROKER_CONFIG: self.broker_config,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delay_offsets,
        }

    def runtime_info(self, _: Command, __: Connection) -> Command:
        """28: figures as strings, under RocketMQ's names where it has one."""
        store, now = self._store, self._clock.now_ms()
        seconds = max(now - self._started_ms, 1) / 1000
        disk = store.disk.use
        figures: dict[str, object] = {
            "brokerActive": "true",
            "brokerVersion": int(Version.V5_5_0),
            "brokerVersionDesc": "V5_5_0",
            "bootTimestamp": self._started_ms,
            "runtime": f"[ {seconds:.0f} seconds ]",
            "putMessageTimesTotal": store.put_count,
            "putMessageSizeTotal": store.put_size,
            "putMessageAverageSize": store.put_size / store.put_count if store.put_count else 0.0,
            "putTps": f"{store.put_count / seconds:.2f}",
            "getFoundTps": f"{self._pulls.found_count / seconds:.2f}",
            "getMissTps": f"{self._pulls.missed_count / seconds:.2f}",
            "getTransferredTps": f"{self._pulls.found_count / seconds:.2f}",
            "msgPutTotalTodayNow": store.put_count,
            "msgGetTotalTodayNow": self._pulls.found_count,
            "commitLogDiskRatio": f"{disk.used_percent / 100:.4f}",
            "commitLogDirCapacity": f"Total : {disk.total} B, Free : {disk.free} B.",
            "heldPulls": len(self._polling),
            "queueLogs": len(store.all_logs()),
            "dispatchBehindBytes": 0,
            "writable": "false" if store.refusal else "true",
            **dict.fromkeys(NOTHING_WAITS, 0),
        }
        for level, (offset, end) in self._schedule.offsets().items():
            figures[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        if store.refusal:
            figures["refusal"] = store.refusal
        table = KVTable(table={key: str(value) for key, value in figures.items()})
        return Command(ResponseCode.SUCCESS, body=table.encode())

    def broker_config(self, _: Command, __: Connection) -> Command:
        """26: the settings as properties text."""
        version = msgspec.json.encode(DataVersion(timestamp=self._started_ms)).decode()
        return Command(
            ResponseCode.SUCCESS,
            header=BrokerConfigResponse(version=version),
            body=settings_text(self._config).encode(),
        )

    def delay_offsets(self, _: Command, __: Connection) -> Command:
        """45: how far each delay level that is used has delivered."""
        offsets = {level: offset for level, (offset, _) in self._schedule.offsets().items()}
        return Command(ResponseCode.SUCCESS, body=DelayOffsets(offset_table=offsets).encode())
