"""The tables of a data directory's meta.db, and the versions of their form."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from pocketmq.broker.store.disk.errors import VersionError
from pocketmq.runtime import VERSION

PLAIN_SCHEMA = 1
"""The version of a directory without features (see `features`), which 0.1.0 reads, too."""

SCHEMA_VERSION = 2
"""The version of a directory with features."""

RELEASE_STATE = "release"
"""The key of the state that names, in JSON, the release that used the directory last."""

TABLES = """
CREATE TABLE IF NOT EXISTS queue_logs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    queue_id INTEGER NOT NULL,
    position INTEGER NOT NULL DEFAULT 0,
    offset INTEGER NOT NULL DEFAULT 0,
    timestamp INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, queue_id)
);
CREATE TABLE IF NOT EXISTS topics (name TEXT PRIMARY KEY, config TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS groups (name TEXT PRIMARY KEY, config TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS consumer_offsets (
    group_name TEXT NOT NULL,
    topic TEXT NOT NULL,
    queue_id INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (group_name, topic, queue_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS order_locks (
    group_name TEXT NOT NULL,
    topic TEXT NOT NULL,
    broker_name TEXT NOT NULL,
    queue_id INTEGER NOT NULL,
    client_id TEXT NOT NULL,
    PRIMARY KEY (group_name, topic, broker_name, queue_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log_epochs (
    number INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (number, epoch)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS deleted_logs (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS timer_pages (page INTEGER PRIMARY KEY, bits BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


def check_schema(path: Path, database: sqlite3.Connection) -> int:
    """Reads the version of the schema of a database; 0 if it is new.

    Raises:
        VersionError: this release does not know it.
        sqlite3.Error: the database cannot be read.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        writer = _last_release(database)
        raise VersionError(
            path,
            f"it is of schema version {version}, which PocketMQ {VERSION} does not know "
            f"({SCHEMA_VERSION} is the newest that it knows): run the version of PocketMQ that "
            f"wrote it{f', {writer}' if writer else ''}, or a newer one",
        )
    return int(version)


def _last_release(database: sqlite3.Connection) -> str:
    """The release that wrote a database whose schema is unknown; empty if it cannot be told."""
    try:
        rows = database.execute("SELECT value FROM state WHERE key = ?", (RELEASE_STATE,))
        return str(msgspec.json.decode(rows.fetchone()[0], type=str))
    except (sqlite3.Error, TypeError, msgspec.DecodeError):
        return ""
