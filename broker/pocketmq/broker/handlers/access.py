"""Who may ask a broker for what: its first users, and the guard before its handlers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from pocketmq.auth.audit_log.audit import Audit, Sink
from pocketmq.auth.audit_log.file import AuditFile
from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.guard import Guard
from pocketmq.auth.needs.broker import BROKER_NEEDS
from pocketmq.auth.needs.parts import Facts
from pocketmq.auth.penalties import Penalties
from pocketmq.auth.refused import RefusalLog
from pocketmq.auth.revoking import Revoking
from pocketmq.auth.rights.plain_acl import read_plain_acl
from pocketmq.auth.settings import AuthSettings
from pocketmq.broker.appending.stored_message import read_stored
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.handlers.audit_topic import AuditTopic
from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice
from pocketmq.transport.connection import Connection
from pocketmq.transport.peer_log import PeerLog

log = logging.getLogger("pocketmq.broker")

AUDIT_FILE = "audit.log"
"""In the data directory, unless another file is named."""

_WAITING_TOPICS = frozenset(
    {names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.HALF_TOPIC, names.CHECK_MAX_TIME_TOPIC}
)
"""Topics whose messages were sent for another topic."""


def broker_guard(
    settings: AuthSettings, parts: BrokerParts, connections: Iterable[Connection]
) -> Guard:
    """Builds the guard of a broker that authenticates its clients, and makes its first users.

    Args:
        settings: of the broker.
        parts: of the broker.
        connections: the open ones.

    Raises:
        ConfigError: nobody could ever sign a request.
    """
    directory, config = parts.data.users, parts.data.settings.now
    make_first_users(settings, directory)
    if config.migrate_auth_from_v1_enabled:
        take_over_accounts(Path(config.plain_acl_path).expanduser(), directory)

    def release(connection: Connection) -> None:
        parts.polling.release(connection)
        parts.waiting.release(connection)

    return guard_of(
        settings, directory, parts.data.store, config, parts.clock, connections, release
    )


def guard_of(
    settings: AuthSettings,
    directory: UserDirectory,
    store: MessageStore,
    config: BrokerConfig,
    clock: Clock,
    connections: Iterable[Connection],
    release: Callable[[Connection], object],
) -> Guard:
    """Builds the guard of a broker for users that exist.

    Args:
        settings, directory, store, config, clock: of the broker.
        connections: the open ones.
        release: answers what a connection waits for.
    """
    own_cluster = (config.broker_cluster_name,)
    guard = Guard(
        directory,
        BROKER_NEEDS,
        Facts(lambda: own_cluster, partial(stored_topic, store)),
        partial(next_slice, clock.machine),
        authorizes=settings.is_authorizing,
        open_codes=settings.open_codes,
        unasked_codes=settings.authorization_whitelist,
    )
    guard.refused.add(RefusalLog(PeerLog(clock.machine)).note)
    guard.refused.add(Penalties(clock.machine).note)
    Revoking(directory, connections, release)
    return guard


def broker_audit(parts: BrokerParts, store_host: bytes, stack: AsyncExitStack) -> Audit | None:
    """Builds the audit of a broker, if it is to have one.

    Args:
        parts: of the broker.
        store_host: the broker's encoded address.
        stack: closes the file.

    Raises:
        ConfigError: the file cannot be written.
    """
    data, clock, config = parts.data, parts.clock, parts.data.settings.now
    file = audit_file(config, data.store.directory, clock, stack)
    sinks: list[Sink] = [] if file is None else [file.write]
    if config.audit_topic:
        topic = AuditTopic(
            config.audit_topic, data.topics, data.store, data.appender, store_host, clock
        )
        sinks.append(topic.write)
    return Audit(config.broker_name, clock, sinks) if sinks else None


def audit_file(
    config: BrokerConfig, directory: Path, clock: Clock, stack: AsyncExitStack
) -> AuditFile | None:
    """Opens the file of a broker's audit, if it is to have one.

    Args:
        config, directory, clock: of the broker.
        stack: closes the file.

    Raises:
        ConfigError: the file cannot be written.
    """
    path = config.audit_log_path
    if not path and not config.authentication_enabled:
        return None
    chosen = Path(path).expanduser() if path else directory / AUDIT_FILE
    file = AuditFile(chosen, config.audit_log_size_max, clock)
    stack.callback(file.close)
    return file


def make_first_users(settings: AuthSettings, directory: UserDirectory) -> None:
    """Makes the users that the configuration names.

    The first user keeps what was changed since. The servers' own is as the configuration says, so
    that a new secret holds from the start on.

    Raises:
        ConfigError: there would be no user at all.
    """
    user = settings.init_user
    if user is not None:
        known = directory.user(user.username)
        if known is None:
            directory.put_user(user)
        elif known.password != user.password:
            log.warning("User:%s keeps the password that it was given since it was made of "
                        "initAuthenticationUser, which has another", user.username)  # fmt: skip
    for user in settings.inner_users:
        known = directory.user(user.username)
        if known is None or known.password != user.password:
            directory.put_user(user)
    if not directory.users():
        raise ConfigError(
            "authenticationEnabled needs a user who can make the others: set "
            'initAuthenticationUser, such as {"username": "admin", "password": "..."}'
        )


def take_over_accounts(path: Path, directory: UserDirectory) -> None:
    """Makes the users of RocketMQ 4's accounts that do not exist yet.

    Args:
        path: of the file of accounts, or of a folder of such files.
        directory: of the users.

    Raises:
        ConfigError: the accounts cannot be read.
    """
    migrated = read_plain_acl(path)
    for user, acl in migrated.users:
        if directory.user(user.username) is None:
            directory.replace(user, acl if acl.entries else None)
            log.info("User:%s was taken over from %s", user.username, path)
    for text in migrated.left_out:
        log.warning("not taken over: %s", text)


def stored_topic(store: MessageStore, offset: int) -> str | None:
    """The topic for which the message at a physical offset was sent; None without a message."""
    data = store.read_physical(offset)
    if not data:
        return None
    message = read_stored(data)
    if message.topic not in _WAITING_TOPICS:
        return message.topic
    return props.value_of(message.text, props.REAL_TOPIC) or message.topic
