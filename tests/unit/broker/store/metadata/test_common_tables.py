"""What members of a broker set have in common: read from one, taken over by another."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.metadata import common_tables
from pocketmq.broker.store.metadata.common_tables import read_common_tables, take_over
from pocketmq.broker.store.metadata.metadata import Metadata, QueueLogRow


def tables_of(metadata: Metadata) -> dict[str, list[tuple[Any, ...]]]:
    tables: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for name, rows in read_common_tables(metadata):
        assert 0 < len(rows) <= common_tables.ROWS_PER_STEP
        tables[name] += rows
    return dict(tables)


def test_one_takes_over_the_tables_of_another(metadata: Metadata, tmp_path: Path) -> None:
    metadata.save_topics((f"topic{i}", "{}") for i in range(2500))
    metadata.save_groups([("group", "{}")])
    metadata.save_consumer_offsets([("group", "topic1", 0, 5)])
    metadata.set_state("user.one", "{}")
    metadata.set_state("member_epoch", "7")
    metadata.add_queue_logs(QueueLogRow(n, "topic1", n, Checkpoint()) for n in (1, 2, 3))
    metadata.delete_topic("topic1", [1, 2, 3])
    tables = tables_of(metadata)
    other = Metadata(tmp_path / "other.db")
    other.save_topics([("gone", "{}")])
    other.set_state("gone", "x")
    other.set_state("member_epoch", "2")
    take_over(other, tables)
    assert other.topics() == metadata.topics()
    assert other.consumer_offsets() == metadata.consumer_offsets()
    assert (other.state("user.one"), other.state("gone")) == ("{}", None)
    assert other.state("member_epoch") == "2"
    assert other.last_log_number() == 3  # no number is given twice, also of logs that are gone
    assert other.queue_logs() == []
    other.close()


def test_what_is_read_is_of_one_moment(metadata: Metadata) -> None:
    metadata.save_topics((f"topic{i}", "{}") for i in range(2500))
    steps = read_common_tables(metadata)
    count = len(next(steps)[1])
    metadata.save_topics([("zzz", "{}")])
    count += sum(len(rows) for name, rows in steps if name == "topics")
    assert count == 2500
