from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from support.store.disks import refuse_changes

from pocketmq.broker.store.disk.errors import DamagedQueueError, FormatError, VersionError
from pocketmq.broker.store.metadata.damaged import DamagedQueues
from pocketmq.broker.store.metadata.metadata import Metadata

PLACE = Path("queues/T/1/0.log")


def test_a_damaged_queue_is_told_of_once_and_kept(
    metadata: Metadata, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = DamagedQueues(Path("data"), metadata)
    assert damaged.known_before() == []
    for _ in range(2):
        error = damaged.record("T", 1, FormatError(PLACE, "it is torn"))
    assert str(error) == (
        "queue 1 of T is not served: queues/T/1/0.log: it is torn; stop the broker and run "
        "`pocketmq store repair data`"
    )
    assert caplog.text.count("it is torn") == 1
    assert [e.queue_id for e in damaged] == [1]
    assert [e.queue_id for e in damaged.of_topic("T")] == [1]
    assert damaged.of_topic("U") == []
    assert DamagedQueues(Path("data"), metadata).known_before() == [("T", 1)]
    damaged.forget_topic("T")
    assert len(damaged) == 0
    assert damaged.get("T", 1) is None
    assert DamagedQueues(Path("data"), metadata).known_before() == []


def test_a_queue_with_a_damaged_record_may_be_opened_again(metadata: Metadata) -> None:
    damaged = DamagedQueues(Path("data"), metadata)
    damaged.record("T", 0, FormatError(PLACE, "a record is torn"), stays_in_service=True)
    damaged.record("T", 1, FormatError(PLACE, "it is torn"))
    with damaged.recording_damage("T", 0):
        pass
    with pytest.raises(DamagedQueueError, match="queue 1 of T"), damaged.recording_damage("T", 1):
        pytest.fail("it was opened again")
    assert len(damaged) == 2


def test_what_is_damaged_is_told_though_it_cannot_be_kept(metadata: Metadata) -> None:
    damaged = DamagedQueues(Path("data"), metadata)
    refuse_changes(metadata, "state")
    with pytest.raises(DamagedQueueError, match="it is torn"), damaged.recording_damage("T", 1):
        raise FormatError(PLACE, "it is torn")
    assert len(damaged) == 1


def test_the_remedy_is_that_of_the_cause(metadata: Metadata) -> None:
    damaged = DamagedQueues(Path("data"), metadata)
    newer = damaged.record("T", 0, VersionError(PLACE, "it is of format version 9"))
    assert newer.remedy == "run the version of PocketMQ that wrote it"
    denied = OSError(errno.EACCES, os.strerror(errno.EACCES), str(PLACE))
    assert str(damaged.record("T", 1, denied)) == (
        "queue 1 of T is not served: queues/T/1/0.log: Permission denied; make the files readable "
        "and writable for the broker's user"
    )
    failed = OSError(errno.EIO, os.strerror(errno.EIO), str(PLACE))
    remedy = "look whether the disk is sound, then start the broker again"
    assert damaged.record("T", 2, failed).remedy == remedy
