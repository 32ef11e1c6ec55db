from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.metadata import open_logs as open_logs_module
from pocketmq.broker.store.metadata.open_logs import OpenLogs


def log_of(queue_id: int) -> QueueLog:
    return QueueLog(Files(), Path(), "T", queue_id, queue_id, 1000)


def opened(*queue_ids: int) -> OpenLogs:
    logs = OpenLogs()
    for queue_id in queue_ids:
        logs.put(("T", queue_id), log_of(queue_id))
    return logs


def turn(logs: OpenLogs, *, may_close: bool = True) -> None:
    for _ in logs.grow_older(lambda _: may_close):
        pass


def test_a_log_goes_when_nobody_asks_for_it_twice_in_a_row() -> None:
    logs = opened(1, 2)
    turn(logs)
    assert len(logs) == 2
    assert logs.find(("T", 1)) is not None
    turn(logs)
    assert [log.queue_id for log in logs] == [1]
    turn(logs)
    assert ("T", 1) not in logs
    assert logs.find(("T", 1)) is None


def test_what_cannot_be_closed_stays() -> None:
    logs = opened(1)
    for _ in range(3):
        turn(logs, may_close=False)
    assert ("T", 1) in logs
    turn(logs)
    assert len(logs) == 0


def test_there_is_no_second_log_as_long_as_somebody_has_the_first() -> None:
    logs = opened(1)
    held = logs.find(("T", 1))
    turn(logs)
    turn(logs)
    assert len(logs) == 0
    assert ("T", 1) in logs
    assert logs.find(("T", 1)) is held
    assert len(logs) == 1


def test_logs_are_found_while_others_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_logs_module, "CLOSED_PER_TURN", 1)
    logs = opened(*range(4))
    turn(logs)
    steps = logs.grow_older(lambda _: True)
    next(steps)
    assert len(logs) == 3
    left = next(iter(logs)).queue_id
    assert logs.find(("T", left)) is not None
    for _ in steps:
        pass
    assert [log.queue_id for log in logs] == [left]


def test_a_round_that_was_given_up_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_logs_module, "CLOSED_PER_TURN", 1)
    logs = opened(*range(4))
    turn(logs)
    next(logs.grow_older(lambda _: False))
    assert len(logs) == 4
    turn(logs, may_close=False)
    assert len(logs) == 4


@pytest.mark.parametrize("turns", range(4))
def test_a_log_is_taken_out_wherever_it_is(turns: int) -> None:
    logs = opened(1)
    held = next(iter(logs))
    for _ in range(turns):
        turn(logs)
    assert logs.pop(("T", 1)) is held
    assert ("T", 1) not in logs
    assert logs.pop(("T", 1)) is None


def test_a_look_keeps_no_log_open() -> None:
    logs = opened(1)
    for _ in range(2):
        found = logs.peek(("T", 1))
        assert found is not None
        turn(logs)
    assert logs.peek(("T", 1)) is found
    assert not logs.are_all_recent
    del found
    assert logs.peek(("T", 1)) is None
    assert logs.are_all_recent
