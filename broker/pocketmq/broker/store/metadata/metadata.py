"""Keeps everything small that must survive in one SQLite file, written in transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import update_wrapper
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from pocketmq.broker.store.disk.errors import (
    DirectoryError,
    DiskFullError,
    FormatError,
    WriteFailedError,
)
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.metadata.features import (
    FEATURE_TOPICS,
    FEATURES_STATE,
    Feature,
    check_known,
    decode_features,
    encode_features,
    features_of_states,
    features_of_topics,
)
from pocketmq.broker.store.metadata.schema import (
    PLAIN_SCHEMA,
    SCHEMA_VERSION,
    TABLES,
    check_schema,
)

CLEAN_STATE = "clean_stop"
"""The key of the state that says whether the last stop was clean: yes or no, and no JSON."""

BOOT_STATE = "boot_id"
"""The key of the state that names, in JSON, the run of the system that used the directory last."""

MEMBER_STATE_PREFIX = "member_"
"""How the keys of states begin that say something of one member of a broker set; no JSON either."""

SET_ID = "member_set_id"
"""The key of the state that names the broker set of which a directory has the data."""

_BESIDE = ("wal", "shm")
"""How the names of SQLite's other files end."""

P = ParamSpec("P")
T = TypeVar("T")

CHANGES: dict[str, Callable[..., object]] = {}
"""The methods of `Metadata` that change what the members of a broker set have in common."""


def _told(
    method: Callable[Concatenate[Metadata, P], T],
) -> Callable[Concatenate[Metadata, P], T]:
    """Has `Metadata.on_change` told of each successful call of a method."""
    CHANGES[method.__name__] = method

    def telling(self: Metadata, /, *arguments: P.args, **options: P.kwargs) -> T:
        if self.on_change is None:
            return method(self, *arguments, **options)
        plain: tuple[Any, ...] = tuple(map(_kept, arguments))
        result = method(self, *plain, **options)
        self.on_change(method.__name__, plain)
        return result

    return update_wrapper(telling, method)


def _kept(argument: object) -> object:
    """An argument of a change; what can be read only once becomes a list."""
    if isinstance(argument, Iterable) and not isinstance(argument, str):
        return list(argument)
    return argument


class QueueLogRow(NamedTuple):
    """The row of a queue log; its number is never given to another log."""

    number: int
    topic: str
    queue_id: int
    checkpoint: Checkpoint


class Metadata:
    """Reads and writes the SQLite file of a data directory.

    Args:
        path: of the file; it is made if it is missing.
        files: the disk.

    Attributes:
        on_change: told of each change that all members of a broker set are to make: the name in
            `CHANGES` and the arguments. None without a set.
        features: what the directory is marked with, see `features`.

    Raises:
        FormatError: it is damaged, or of another version (`VersionError`).
        DirectoryError: it cannot be opened or written.
    """

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self._path = path
        self._files = files or Files()
        self.on_change: Callable[[str, tuple[object, ...]], object] | None = None
        self.features: set[Feature] = set()
        try:
            self._db = self._files.database(path)
        except sqlite3.OperationalError as e:
            raise self._unusable(e) from e
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            version = check_schema(path, self._db)
            if version:
                self.features = decode_features(self.state(FEATURES_STATE))
                check_known(path, self.features)
            self._db.executescript(TABLES)
            if not version:
                self._db.execute(f"PRAGMA user_version={PLAIN_SCHEMA}")
            self._mark_what_is_there()
        except sqlite3.OperationalError as e:
            self._db.close()
            raise self._unusable(e) from e
        except sqlite3.DatabaseError as e:
            self._db.close()
            raise self._damaged(e) from e
        except BaseException:
            self._db.close()
            raise

    def _unusable(self, error: sqlite3.OperationalError) -> DirectoryError:
        text = str(error)
        remedy = ""
        if "locked" in text:
            remedy = "end the program that has it open, such as sqlite3 or a backup"
        elif "full" in text or "disk I/O" in text:
            remedy = "free some space on its disk, and look whether the disk is sound"
        return DirectoryError(self._path.parent, f"{self._path.name}: {text}", remedy)

    def _damaged(self, error: sqlite3.DatabaseError) -> FormatError:
        return FormatError(
            self._path,
            f"SQLite cannot read it ({error}): restore it from a copy, or run `pocketmq store "
            f"repair {self._path.parent}`, which will move it away and make it again from what can "
            f"be read of it and from the logs",
        )

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def sync(self) -> None:
        """Returns when everything written so far is in the database file and on the disk.

        Raises:
            WriteFailedError: it is not.
        """
        self._write("PRAGMA wal_checkpoint(TRUNCATE)", ())

    @property
    def paths(self) -> list[Path]:
        """The database file, and those that SQLite keeps beside it."""
        return [self._path, *(self._path.with_name(f"{self._path.name}-{n}") for n in _BESIDE)]

    @property
    def log_path(self) -> Path:
        """The file of SQLite's own log: when it is on the disk, so is everything written so far.

        SQLite holds no locks on it, so that it may be opened and closed beside.
        """
        return self._path.with_name(f"{self._path.name}-wal")

    # -- features -----------------------------------------------------------------------------

    def _mark_what_is_there(self) -> None:
        """Marks the directory with what it holds already: a repair may have lost the mark."""
        keys = self._rows("SELECT key FROM state")
        self._mark(features_of_states(key for (key,) in keys))
        for topic in FEATURE_TOPICS:
            if self._rows("SELECT 1 FROM queue_logs WHERE topic = ? LIMIT 1", (topic,)):
                self._mark(features_of_topics([topic]))

    def _mark(self, features: set[Feature]) -> None:
        if not features <= self.features:
            self.use_features(sorted(features))

    @_told
    def use_features(self, features: Iterable[Feature]) -> None:
        """Marks the directory with features, before anything of them is written.

        Raises:
            VersionError: one is unknown: the leader of the broker set is of a later release.
            WriteFailedError: nothing was changed.
        """
        marked = self.features.union(Feature(*feature) for feature in features)
        if marked == self.features:
            return
        check_known(self._path, marked)
        self._write(f"PRAGMA user_version={SCHEMA_VERSION}", ())
        row = (FEATURES_STATE, encode_features(marked))
        self.transaction([("INSERT OR REPLACE INTO state VALUES (?, ?)", [row])])
        self.features = marked

    # -- state --------------------------------------------------------------------------------

    def state(self, key: str) -> str | None:
        """Reads one value of the broker's own; None if it was never set."""
        rows = self._rows("SELECT value FROM state WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def states(self, prefix: str) -> dict[str, str]:
        """Reads the values of the broker's own whose keys begin with a prefix, by key."""
        rows = self._rows("SELECT key, value FROM state WHERE key >= ? ORDER BY key", (prefix,))
        return {key: value for key, value in rows if key.startswith(prefix)}

    @_told
    def set_state(self, key: str, value: str, *, durably: bool = False) -> None:
        """Writes one value of the broker's own; with `durably` it is on the disk on return."""
        self._mark(features_of_states([key]))
        statement = "INSERT OR REPLACE INTO state VALUES (?, ?)"
        self.transaction([(statement, [(key, value)])], durably=durably)

    @_told
    def change_states(
        self, written: Iterable[tuple[str, str]], removed: Iterable[str], *, durably: bool = False
    ) -> None:
        """Writes and removes values of the broker's own, all or none.

        Args:
            written: keys with their values.
            removed: keys.
            durably: on the disk on return.

        Raises:
            WriteFailedError: nothing was changed.
        """
        rows = list(written)
        self._mark(features_of_states(key for key, _ in rows))
        self.transaction(
            [
                ("INSERT OR REPLACE INTO state VALUES (?, ?)", rows),
                ("DELETE FROM state WHERE key = ?", [(key,) for key in removed]),
            ],
            durably=durably,
        )

    @_told
    def remove_state(self, key: str) -> None:
        """Removes one value of the broker's own."""
        self._write("DELETE FROM state WHERE key = ?", (key,))

    # -- queue logs ---------------------------------------------------------------------------

    def queue_logs(self) -> list[QueueLogRow]:
        """Reads all queue logs with their last checkpoints."""
        rows = self._rows(
            "SELECT number, topic, queue_id, position, offset, timestamp FROM queue_logs"
        )
        return [QueueLogRow(n, t, q, Checkpoint(p, o, s)) for n, t, q, p, o, s in rows]

    def last_log_number(self) -> int:
        """Reads the highest number that a queue log ever had; 0 if there was no log."""
        rows = self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'queue_logs'")
        return int(rows[0][0]) if rows else 0

    @_told
    def add_queue_logs(self, logs: Iterable[QueueLogRow]) -> None:
        """Inserts new queue logs under numbers that no log ever had.

        Raises:
            WriteFailedError: nothing was changed.
        """
        new = list(logs)
        self._mark(features_of_topics(row.topic for row in new))
        rows: list[tuple[object, ...]] = [(n, t, q, *at) for n, t, q, at in new]
        self._many("INSERT INTO queue_logs VALUES (?, ?, ?, ?, ?, ?)", rows)

    def adopt_queue_log(self, number: int, topic: str, queue_id: int) -> None:
        """Inserts a log that was found on the disk, under the number that its files carry.

        Raises:
            FormatError: that number is another log's.
        """
        self._mark(features_of_topics([topic]))
        try:
            self._write(
                "INSERT INTO queue_logs (number, topic, queue_id) VALUES (?, ?, ?)",
                (number, topic, queue_id),
            )
        except sqlite3.IntegrityError as e:
            raise FormatError(
                self._path,
                f"the files of {topic} queue {queue_id} carry the log number {number}, which is "
                f"another queue's: were they copied from elsewhere? Move them away",
            ) from e

    def save_checkpoints(self, checkpoints: Iterable[tuple[int, Checkpoint]]) -> None:
        """Writes the checkpoints of logs, given by their numbers."""
        self._many(
            "UPDATE queue_logs SET position = ?, offset = ?, timestamp = ? WHERE number = ?",
            [(*checkpoint, number) for number, checkpoint in checkpoints],
        )

    # -- the history of logs ------------------------------------------------------------------

    def log_epochs(self) -> list[tuple[int, int, int]]:
        """Reads (log number, epoch, position) of all logs, the oldest epoch of each log first."""
        return self._rows("SELECT number, epoch, position FROM log_epochs ORDER BY number, epoch")

    def epochs_of_log(self, number: int) -> list[tuple[int, int]]:
        """Reads (epoch, position) of one log, the oldest epoch first."""
        statement = "SELECT epoch, position FROM log_epochs WHERE number = ? ORDER BY epoch"
        return self._rows(statement, (number,))

    def save_log_epochs(
        self, rows: Iterable[tuple[int, int, int]], *, durably: bool = False
    ) -> None:
        """Writes (log number, epoch, position) rows; with `durably` they are on the disk on return.

        Raises:
            WriteFailedError: nothing was changed.
        """
        statement = "INSERT OR REPLACE INTO log_epochs VALUES (?, ?, ?)"
        self.transaction([(statement, list(rows))], durably=durably)

    def remove_log_epoch(self, number: int, epoch: int) -> None:
        """Deletes where an epoch begins in a log."""
        self._write("DELETE FROM log_epochs WHERE number = ? AND epoch = ?", (number, epoch))

    # -- deleted topics -----------------------------------------------------------------------

    @_told
    def delete_topic(self, name: str, numbers: Iterable[int]) -> None:
        """Deletes a topic, every group's offsets in it, and its logs.

        Before its files change, or there are new ones, `log_path` must be brought to the disk: else
        a power cut could leave logs of a later topic of that name beside the entries of the earlier
        one's. The numbers are not used again, and noted as deleted until `forget_deleted_logs`:
        their files may still be there.

        Raises:
            WriteFailedError: nothing was changed.
        """
        self.transaction(
            [
                ("DELETE FROM topics WHERE name = ?", [(name,)]),
                ("DELETE FROM consumer_offsets WHERE topic = ?", [(name,)]),
                ("DELETE FROM queue_logs WHERE topic = ?", [(name,)]),
                ("INSERT OR IGNORE INTO deleted_logs VALUES (?)", [(n,) for n in numbers]),
            ]
        )

    def deleted_logs(self) -> set[int]:
        """Reads the numbers of deleted logs whose files may still be there."""
        return {number for (number,) in self._db.execute("SELECT number FROM deleted_logs")}

    def forget_deleted_logs(self, numbers: Iterable[int]) -> None:
        """Deletes the numbers of deleted logs whose files are gone for good."""
        self._many("DELETE FROM deleted_logs WHERE number = ?", [(n,) for n in numbers])

    # -- topics and groups --------------------------------------------------------------------

    def topics(self) -> dict[str, str]:
        """Reads the settings of all topics as JSON text by name."""
        return dict(self._rows("SELECT name, config FROM topics"))

    @_told
    def save_topics(self, configs: Iterable[tuple[str, str]]) -> None:
        """Writes (name, JSON text) of topics."""
        self._many("INSERT OR REPLACE INTO topics VALUES (?, ?)", list(configs))

    @_told
    def remove_topic(self, name: str) -> None:
        """Deletes a topic's settings and every group's offsets in the topic."""
        self._write("DELETE FROM topics WHERE name = ?", (name,))
        self._write("DELETE FROM consumer_offsets WHERE topic = ?", (name,))

    @_told
    def remove_topics(self, names: Iterable[str]) -> None:
        """Deletes the settings of topics that nobody has consumed."""
        self._many("DELETE FROM topics WHERE name = ?", [(name,) for name in names])

    def groups(self) -> dict[str, str]:
        """Reads the settings of all groups as JSON text by name."""
        return dict(self._rows("SELECT name, config FROM groups"))

    @_told
    def save_groups(self, configs: Iterable[tuple[str, str]]) -> None:
        """Writes (name, JSON text) of groups."""
        self._many("INSERT OR REPLACE INTO groups VALUES (?, ?)", list(configs))

    @_told
    def remove_groups(self, names: Iterable[str]) -> None:
        """Deletes the settings of groups."""
        self._many("DELETE FROM groups WHERE name = ?", [(name,) for name in names])

    # -- consumer offsets ---------------------------------------------------------------------

    def consumer_offsets(self) -> list[tuple[str, str, int, int]]:
        """Reads (group, topic, queue id, offset) of all committed offsets."""
        return self._rows("SELECT group_name, topic, queue_id, offset FROM consumer_offsets")

    @_told
    def save_consumer_offsets(
        self, rows: Iterable[tuple[str, str, int, int]], *, durably: bool = False
    ) -> None:
        """Writes (group, topic, queue id, offset) rows; with `durably` they are on the disk on
        return.

        Raises:
            WriteFailedError: nothing was changed.
        """
        statement = "INSERT OR REPLACE INTO consumer_offsets VALUES (?, ?, ?, ?)"
        self.transaction([(statement, list(rows))], durably=durably)

    @_told
    def remove_consumer_offsets(self, group: str) -> None:
        """Deletes all committed offsets of a group."""
        self._write("DELETE FROM consumer_offsets WHERE group_name = ?", (group,))

    # -- order locks --------------------------------------------------------------------------

    def order_locks(self) -> list[tuple[str, str, str, int, str]]:
        """Reads (group, topic, broker name, queue id, client id) of every locked queue."""
        return self._rows(
            "SELECT group_name, topic, broker_name, queue_id, client_id FROM order_locks"
        )

    @_told
    def save_order_locks(self, rows: Iterable[tuple[str, str, str, int, str]]) -> None:
        """Writes (group, topic, broker name, queue id, client id) rows."""
        self._many("INSERT OR REPLACE INTO order_locks VALUES (?, ?, ?, ?, ?)", list(rows))

    @_told
    def remove_order_locks(self, rows: Iterable[tuple[str, str, str, int]]) -> None:
        """Deletes the locks of (group, topic, broker name, queue id)."""
        self._many(
            "DELETE FROM order_locks "
            "WHERE group_name = ? AND topic = ? AND broker_name = ? AND queue_id = ?",
            list(rows),
        )

    # -- timers -------------------------------------------------------------------------------

    def timer_pages(self) -> dict[int, bytes]:
        """Reads the bits of delivered timers by page, see `delay.delivered`."""
        return dict(self._rows("SELECT page, bits FROM timer_pages"))

    @_told
    def save_timer_pages(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Writes (page, bits) rows."""
        self._many("INSERT OR REPLACE INTO timer_pages VALUES (?, ?)", list(rows))

    @_told
    def remove_timer_pages(self, start: int, end: int) -> None:
        """Deletes the pages from `start` to before `end`."""
        self._write("DELETE FROM timer_pages WHERE page >= ? AND page < ?", (start, end))

    def reader(self) -> sqlite3.Connection:
        """Opens the file once more, to read from while it is written to; the caller closes it."""
        return self._files.database(self._path)

    def _rows(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Reads rows.

        Raises:
            FormatError: the file is damaged.
            DirectoryError: it cannot be read now.
        """
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.OperationalError as e:
            raise self._unusable(e) from e
        except sqlite3.DatabaseError as e:
            raise self._damaged(e) from e

    def _write(self, statement: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        """Changes one row.

        Raises:
            WriteFailedError: nothing was changed.
        """
        try:
            return self._db.execute(statement, values)
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as e:
            raise self._failed_write(e) from e

    def _failed_write(self, error: sqlite3.DatabaseError) -> WriteFailedError:
        kind = DiskFullError if "is full" in str(error) else WriteFailedError
        return kind(f"writing to {self._path} failed: {error}")

    def _many(self, statement: str, rows: list[tuple[object, ...]]) -> None:
        """Changes some rows, all or none.

        Raises:
            WriteFailedError: nothing was changed.
        """
        self.transaction([(statement, rows)])

    def transaction(self, changes: list[tuple[str, list[Any]]], *, durably: bool = False) -> None:
        """Runs each statement for each of its rows, all or none.

        A transaction is on the disk some time later, but not before those that precede it.

        Raises:
            WriteFailedError: nothing was changed.
        """
        if not any(rows for _, rows in changes):
            return
        try:
            if durably:
                self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("BEGIN")
            for statement, rows in changes:
                self._db.executemany(statement, rows)
            self._db.execute("COMMIT")
        except BaseException as e:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(e, sqlite3.DatabaseError):
                raise self._failed_write(e) from e
            raise
        finally:
            if durably:
                self._db.execute("PRAGMA synchronous=NORMAL")
