"""Reads as much of a data directory's meta.db as is readable, and changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from pocketmq.broker.store.disk.errors import VersionError
from pocketmq.broker.store.metadata.features import (
    FEATURES_STATE,
    Feature,
    check_known,
    decode_features,
)
from pocketmq.broker.store.metadata.metadata import (
    BOOT_STATE,
    CLEAN_STATE,
    MEMBER_STATE_PREFIX,
)
from pocketmq.broker.store.metadata.schema import PLAIN_SCHEMA, check_schema
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig

LEFT_AS_IT_IS = "this release leaves it as it is"
"""Ends what is said of a directory of a later release, whose problem names the remedy."""

PROBLEMS_MAX = 10
"""Of each kind, those that SQLite is asked for."""

TABLES = {
    "queue_logs": ("number", "topic", "queue_id", "position", "offset", "timestamp"),
    "topics": ("name", "config"),
    "groups": ("name", "config"),
    "consumer_offsets": ("group_name", "topic", "queue_id", "offset"),
    "order_locks": ("group_name", "topic", "broker_name", "queue_id", "client_id"),
    "timer_pages": ("page", "bits"),
    "log_epochs": ("number", "epoch", "position"),
    "state": ("key", "value"),
}
"""The columns of each table that a copy needs."""

_LATER = frozenset({"log_epochs"})
"""Tables that directories of earlier versions do not have."""

_PLAIN_STATES = (CLEAN_STATE, BOOT_STATE, MEMBER_STATE_PREFIX)
"""How the keys of states begin that may be no JSON."""


_TEXTS: dict[str, Any] = {"topics": TopicConfig, "groups": GroupConfig, "state": Any}
"""What the second column of these tables holds as JSON."""

_KINDS: dict[str, type] = {
    "number": int, "queue_id": int, "position": int, "offset": int, "timestamp": int, "page": int,
    "bits": bytes, "epoch": int,
}  # fmt: skip


@dataclass
class MetadataSurvey:
    """The rows of meta.db that could be read, and what is wrong with the file.

    Attributes:
        is_there: whether there is one.
        is_newer: whether it is of a version, or has features, that this one does not know.
        problems: what is wrong with it, in words.
        rows: what could be read, by table.
    """

    is_there: bool = False
    is_newer: bool = False
    problems: list[str] = field(default_factory=list)
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )

    def state(self, key: str) -> str | None:
        """Returns one value of the broker's own."""
        return next((value for k, value in self.rows["state"] if k == key), None)

    def features(self) -> set[Feature]:
        """Returns what the directory is marked with."""
        return decode_features(self.state(FEATURES_STATE))

    def topics(self) -> dict[str, TopicConfig]:
        """Returns the settings of topics by name."""
        return {
            name: msgspec.json.decode(text, type=TopicConfig) for name, text in self.rows["topics"]
        }


def survey_metadata(directory: Path) -> MetadataSurvey:
    """Reads all that can be read of a directory's meta.db."""
    path = directory / "meta.db"
    survey = MetadataSurvey(path.exists())
    if not survey.is_there:
        return survey
    if not path.stat().st_size:
        survey.problems.append("it is empty")
        return survey
    try:
        with closing(_open(path)) as database:
            _read(path, database, survey)
            check_known(path, survey.features())
    except VersionError as e:
        survey.is_newer = True
        survey.problems.append(e.reason)
    except sqlite3.Error as e:
        survey.problems.append(f"SQLite cannot read it ({e})")
    return survey


def _open(path: Path) -> sqlite3.Connection:
    place = f"file:{quote(str(path))}?mode=ro"
    if path.with_name(f"{path.name}-wal").exists():
        database = sqlite3.connect(place, uri=True)
        try:
            database.execute("PRAGMA schema_version").fetchone()
        except sqlite3.OperationalError:
            database.close()  # to read a write-ahead log, SQLite must be able to write beside it
        else:
            return database
    return sqlite3.connect(f"{place}&immutable=1", uri=True)


def _read(path: Path, database: sqlite3.Connection, survey: MetadataSurvey) -> None:
    if check_schema(path, database) < PLAIN_SCHEMA:
        survey.problems.append("it is not PocketMQ's, or was never finished")
    names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    for table, columns in TABLES.items():
        if table in _LATER and table not in names:
            continue
        found = survey.rows[table]
        try:
            for row in database.execute(f"SELECT {', '.join(columns)} FROM {table}"):  # noqa: S608
                if _is_sound(table, columns, row):
                    found.append(row)
                else:
                    survey.problems.append(
                        f"the row {str(row[0])!r} of {table} holds what does not belong there"
                    )
        except sqlite3.Error as e:
            survey.problems.append(f"the table {table} cannot be read whole ({e})")
    for (text,) in database.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})"):
        if text != "ok":
            survey.problems.append(f"SQLite says: {text.strip()}")


def _is_sound(table: str, columns: tuple[str, ...], row: tuple[Any, ...]) -> bool:
    """Whether a row holds values of the right kinds, and text that can be read."""
    if not all(
        isinstance(value, _KINDS.get(name, str)) for name, value in zip(columns, row, strict=True)
    ):
        return False
    kind = _TEXTS.get(table)
    if kind is None or (table == "state" and row[0].startswith(_PLAIN_STATES)):
        return True
    if table == "state" and row[0] == FEATURES_STATE:
        kind = set[Feature]
    try:
        msgspec.json.decode(row[1], type=kind)
    except msgspec.DecodeError:
        return False
    return True
