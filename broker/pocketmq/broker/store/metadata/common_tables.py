"""What of the metadata is the same in all members of a broker set: reads it, and takes it over.

What a directory only knows of itself stays where it is: checkpoints, whether the last stop was
clean, which queues are damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pocketmq.broker.store.metadata.features import (
    FEATURES_STATE,
    decode_features,
    features_of_states,
)
from pocketmq.broker.store.metadata.metadata import (
    BOOT_STATE,
    CLEAN_STATE,
    MEMBER_STATE_PREFIX,
    Metadata,
)
from pocketmq.broker.store.metadata.schema import RELEASE_STATE

ROWS_PER_STEP = 1000
"""Rows that one step of `read_common_tables` reads, in a few milliseconds."""

LOCAL_STATES = frozenset(
    {
        CLEAN_STATE, BOOT_STATE, RELEASE_STATE,
        "owner", "damaged_queues", "unsure_times", "adopted_topics",
    }
)  # fmt: skip
"""Keys of further states that belong to one directory."""

STATE_TABLE, LOG_TABLE, NUMBER_TABLE = "state", "queue_logs", "numbers"

_COLUMNS = {
    "topics": 2, "groups": 2, "consumer_offsets": 4, "order_locks": 5, "timer_pages": 2,
    STATE_TABLE: 2,
}  # fmt: skip

_READS = {
    **{name: f"SELECT * FROM {name}" for name in _COLUMNS},  # noqa: S608
    LOG_TABLE: "SELECT number, topic, queue_id FROM queue_logs",
    NUMBER_TABLE: "SELECT seq FROM sqlite_sequence WHERE name = 'queue_logs'",
}

Rows = list[tuple[Any, ...]]


def is_local_state(key: str) -> bool:
    """Whether a state says something of one directory only."""
    return key in LOCAL_STATES or key.startswith(MEMBER_STATE_PREFIX)


def read_common_tables(metadata: Metadata) -> Iterator[tuple[str, Rows]]:
    """Yields (name, some rows) of all common tables, as they are when the first step is made."""
    db = metadata.reader()
    try:
        db.execute("BEGIN")
        for name, statement in _READS.items():
            rows = db.execute(statement)
            while some := rows.fetchmany(ROWS_PER_STEP):
                if name == STATE_TABLE:
                    some = [row for row in some if not is_local_state(row[0])]
                yield name, some
    finally:
        db.close()


def take_over(metadata: Metadata, tables: Mapping[str, Rows]) -> None:
    """Replaces the common tables, but for the logs, which are not touched.

    The directory keeps the features that it is marked with, and is marked with those of the tables.

    Args:
        metadata: to be changed.
        tables: all rows by the name of the table.

    Raises:
        VersionError: this release does not know one of the features.
        WriteFailedError: nothing was changed.
    """
    states: dict[str, str] = dict(tables.get(STATE_TABLE, []))
    metadata.use_features(
        decode_features(states.pop(FEATURES_STATE, None)) | features_of_states(states)
    )
    tables = {**tables, STATE_TABLE: list(states.items())}
    common = [
        (key,) for key in metadata.states("") if not is_local_state(key) and key != FEATURES_STATE
    ]
    changes: list[tuple[str, Rows]] = [("DELETE FROM state WHERE key = ?", common)]
    changes += [(f"DELETE FROM {name}", [()]) for name in _COLUMNS if name != STATE_TABLE]  # noqa: S608
    for name, columns in _COLUMNS.items():
        marks = ", ".join("?" * columns)
        rows = tables.get(name, [])
        changes.append((f"INSERT OR REPLACE INTO {name} VALUES ({marks})", rows))  # noqa: S608
    numbers = [row for row in tables.get(NUMBER_TABLE, []) if row[0] > metadata.last_log_number()]
    # SQLite gives no number again that was ever in the table.
    changes += [
        ("INSERT INTO queue_logs (number, topic, queue_id) VALUES (?, '', -1)", numbers),
        ("DELETE FROM queue_logs WHERE queue_id = ?", [(-1,)]),
    ]
    metadata.transaction(changes)
