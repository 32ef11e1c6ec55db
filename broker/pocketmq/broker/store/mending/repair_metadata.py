"""Plans the changes to meta.db after which it knows the logs that there are, and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.mending.aside import Aside
from pocketmq.broker.store.mending.check import QueueKey
from pocketmq.broker.store.mending.metadata_check import TABLES, MetadataSurvey
from pocketmq.broker.store.mending.repair_queue import QueueRepairPlan, Step
from pocketmq.broker.store.metadata.features import FEATURES_STATE, GAPS, encode_features
from pocketmq.broker.store.metadata.log_epochs import mended_epoch
from pocketmq.broker.store.metadata.metadata import CLEAN_STATE, SET_ID, Metadata
from pocketmq.broker.store.metadata.schema import SCHEMA_VERSION
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.names import names

_FILES = ("meta.db", "meta.db-wal", "meta.db-shm")

Change = tuple[str, tuple[Any, ...]]
"""A statement and its values."""


class MetadataRepair:
    """Plans the repair of meta.db after that of the queues.

    One that cannot be read whole is moved aside and made again, with the rows that could be read.

    Args:
        files: the disk.
        aside: where things are moved.
        directory: the data directory.
        survey: what meta.db holds.
        queues: what will be left of each queue.
    """

    def __init__(
        self,
        files: Files,
        aside: Aside,
        directory: Path,
        survey: MetadataSurvey,
        queues: Mapping[QueueKey, QueueRepairPlan],
    ) -> None:
        self._files, self._aside, self._directory = files, aside, directory
        self._survey, self._queues = survey, queues
        self._path = directory / "meta.db"
        self._steps: list[Step] = []
        self._changes: list[Change] = []
        self._entered: set[str] = set()

    def plan(self) -> list[Step]:
        """Returns the changes to meta.db, in order."""
        survey = self._survey
        if survey.problems:
            self._make_again()
        self._enter_logs()
        self._enter_topics()
        self._part_from_set()
        self._cap_offsets()
        self._mark_gaps()
        if self._changes:
            # One step writes all of them: either meta.db is as planned, or as it was.
            self._steps.append(Step(self._path, "write these changes", self._write))
        return self._steps

    def _make_again(self) -> None:
        rows = sum(len(found) for found in self._survey.rows.values())
        self._do(
            f"move it aside and make it again with the {rows} rows that can be read of it: "
            f"{'; '.join(self._survey.problems)}",
            self._begin_anew,
        )
        for table, columns in TABLES.items():
            if table in ("queue_logs", "topics"):
                continue  # see `_enter_logs`, `_enter_topics`
            marks = ", ".join("?" for _ in columns)
            statement = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
            self._changes += [
                (statement, row)
                for row in self._survey.rows[table]
                if not (table == "state" and row[0] == CLEAN_STATE)
            ]

    def _enter_logs(self) -> None:
        is_new = bool(self._survey.problems)
        rows = {(row[1], row[2]): row for row in self._survey.rows["queue_logs"]}
        for key, plan in self._queues.items():
            if plan.number is None:
                if key in rows and not is_new and rows[key][3]:
                    self._forget(key, rows[key][0])
                continue
            row = rows.get(key)
            is_known = row is not None and row[0] == plan.number
            if is_known and not is_new and row is not None and row[3] <= plan.end.position:
                continue
            if not is_known or is_new:
                self._entered.add(key[0])
            if not is_known:
                self._say(f"enter queue {key[1]} of {key[0]} as queue log {plan.number}")
            elif not is_new:
                self._say(f"note that queue {key[1]} of {key[0]} ends at {plan.end.offset}")
            self._changes += [
                ("DELETE FROM queue_logs WHERE topic = ? AND queue_id = ?", key),
                (
                    "INSERT OR REPLACE INTO queue_logs "
                    "(number, topic, queue_id, position, offset, timestamp) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (plan.number, *key, *(Checkpoint() if is_new else plan.end)),
                ),
            ]

    def _forget(self, key: QueueKey, number: int) -> None:
        self._say(f"forget queue log {number}, {key[0]} queue {key[1]}: nothing is left of it")
        self._changes.append(("DELETE FROM queue_logs WHERE number = ?", (number,)))

    def _enter_topics(self) -> None:
        is_new = bool(self._survey.problems)
        known = self._survey.topics()
        nums: dict[str, int] = {}
        for (topic, queue_id), plan in self._queues.items():
            if plan.number is not None and topic in self._entered:
                nums[topic] = max(nums.get(topic, 0), queue_id + 1)
        if is_new:
            self._changes += [
                ("INSERT OR REPLACE INTO topics (name, config) VALUES (?, ?)", row)
                for row in self._survey.rows["topics"]
            ]
        for topic, count in nums.items():
            if topic in known or topic in names.SYSTEM_TOPICS:
                continue  # the broker makes its own
            self._say(f"make topic {topic} again with {count} queues")
            config = TopicConfig(
                topic_name=topic,
                read_queue_nums=count,
                write_queue_nums=count,
                perm=PERM_READ | PERM_WRITE,
            )
            self._changes.append(
                (
                    "INSERT OR REPLACE INTO topics (name, config) VALUES (?, ?)",
                    (topic, msgspec.json.encode(config).decode()),
                )
            )

    def _part_from_set(self) -> None:
        """Has other members of a broker set not take repaired logs for copies of theirs."""
        if self._survey.state(SET_ID) is None:
            return
        for (topic, queue_id), plan in self._queues.items():
            if plan.number is None or not plan.steps:
                continue
            self._say(
                f"have queue {queue_id} of {topic} copied anew: from the leader of the broker set, "
                f"or to the followers if this member leads"
            )
            self._changes += [
                ("DELETE FROM log_epochs WHERE number = ?", (plan.number,)),
                (
                    "INSERT INTO log_epochs (number, epoch, position) VALUES (?, ?, ?)",
                    (plan.number, mended_epoch(), 0),
                ),
            ]

    def _mark_gaps(self) -> None:
        """Keeps releases away that would give consumers records that stand for lost ones."""
        features = self._survey.features()
        if GAPS not in features and any(plan.has_gaps for plan in self._queues.values()):
            self._say(f"mark the directory: releases before {GAPS.since} know no such gaps")
            features.add(GAPS)
        elif not features or not self._survey.problems:
            return
        self._changes += [
            (f"PRAGMA user_version={SCHEMA_VERSION}", ()),
            (
                "INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)",
                (FEATURES_STATE, encode_features(features)),
            ),
        ]

    def _cap_offsets(self) -> None:
        for group, topic, queue_id, offset in self._survey.rows["consumer_offsets"]:
            plan = self._queues.get((topic, queue_id))
            if plan is None or plan.number is None or offset <= plan.end.offset:
                continue
            end = plan.end.offset
            self._say(
                f"put group {group} back from offset {offset} to {end}, the end of queue "
                f"{queue_id} of {topic}"
            )
            self._changes.append(
                (
                    "UPDATE consumer_offsets SET offset = ? "
                    "WHERE group_name = ? AND topic = ? AND queue_id = ?",
                    (end, group, topic, queue_id),
                )
            )

    # -- what the steps do ---------------------------------------------------------------------

    def _do(self, text: str, apply: Callable[[], object]) -> None:
        self._steps.append(Step(self._path, text, apply))

    def _say(self, text: str) -> None:
        """Adds a line to the report about the changes that are written together."""
        self._do(text, partial(bool))

    def _begin_anew(self) -> None:
        for name in _FILES:
            self._aside.move(self._files, self._directory / name)
        Metadata(self._path).close()

    def _write(self) -> None:
        with closing(self._files.database(self._path)) as database:
            database.execute("PRAGMA synchronous=FULL")
            database.execute("BEGIN IMMEDIATE")
            for statement, values in self._changes:
                database.execute(statement, values)
            database.execute("COMMIT")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._files.sync_directory(self._directory)
