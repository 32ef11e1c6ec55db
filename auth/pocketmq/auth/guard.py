"""Stands before the handlers of a server: who asks, and may they?

A request is authenticated before its body is decoded and before anything is done for it. Requests
without a name cost next to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import wraps
from hmac import compare_digest
from operator import itemgetter
from typing import NamedTuple

import msgspec

from pocketmq.auth.accounts import Account, Accounts
from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.needs.parts import Facts, Part
from pocketmq.auth.needs.table import ONLY_SUPER, NeedsTable, key_fields
from pocketmq.auth.refused import NAME_LENGTH_MAX, RefusedRequest
from pocketmq.auth.rights.decision import decide
from pocketmq.auth.rights.policies import Need
from pocketmq.protocol.codes import ResponseCode, Version
from pocketmq.protocol.errors import ContentError, ResponseError
from pocketmq.protocol.signing import ACCESS_KEY, SIGNATURE, signed_form
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.listeners import Listeners
from pocketmq.transport.connection import UNKNOWN_CODE, Connection, Handler, Reply, refuse_unknown
from pocketmq.transport.reading_state import Hold

USER = "user"
"""The attribute of a connection that holds the user of its last request."""

USERS = "users"
"""The attribute of a connection that holds all users that have sent requests on it."""

_SOURCE_IP = "source_ip"

HASHED_AT_ONCE_SIZE_MAX = 256 * 1024
"""Bytes of a body that the loop hashes, in a quarter of a millisecond; others go to a thread."""

NEEDS_AT_ONCE_MAX = 500
"""Needs of one request that are decided in one turn of the loop."""

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""The field that clients up to 4.9.3 add after they have signed."""

NO_NAME = "username cannot be null."
WRONG_SIGNATURE = "check signature failed."
"""RocketMQ's words."""

_Texts = Mapping[str, str]


class Guard:
    """Authenticates requests, asks the policies, and then calls the handlers.

    Args:
        directory: of the users and their policies.
        needs: what each request code needs; a code that is not in it is for Super users.
        facts: of the server.
        next_turn: waits for a later turn of the loop, in long work.
        authorizes: whether policies are asked at all.
        open_codes: requests that everybody may send, even without a name.
        unasked_codes: requests that every user may send, whatever the policies say.

    Attributes:
        refused: notified of each request that is refused.
    """

    def __init__(
        self,
        directory: UserDirectory,
        needs: NeedsTable,
        facts: Facts,
        next_turn: Callable[[], Awaitable[object]],
        *,
        authorizes: bool,
        open_codes: Collection[int] = (),
        unasked_codes: Collection[int] = (),
    ) -> None:
        self._accounts = Accounts(directory)
        self._needs, self._facts, self._authorizes = needs, facts, authorizes
        self._next_turn = next_turn
        self._open_codes, self._unasked_codes = open_codes, unasked_codes
        self.refused: Listeners[[RefusedRequest]] = Listeners()

    def table(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Guards all handlers of a table, and the answer to codes that are not in it."""
        handlers = {UNKNOWN_CODE: refuse_unknown, **handlers}
        return {code: self.guard(code, handler) for code, handler in handlers.items()}

    def guard(self, code: int, handler: Handler) -> Handler:
        """Returns a handler that refuses what is not allowed.

        Args:
            code: of the requests.
            handler: handles those that are allowed.
        """
        if code in self._open_codes:
            return handler
        rights = self._rights(code)
        accounts, admit = self._accounts, self._admit

        @wraps(handler)
        def guarded_handler(command: Command, connection: Connection) -> Reply:
            try:
                fields = command.fields
                account = accounts[fields[ACCESS_KEY]]
            except (KeyError, TypeError, ContentError):
                return self._refuse_stranger(command, connection)
            if not account.is_enabled:
                return self._refuse(command, connection, f"User:{account.name} is disabled.")
            is_old = command.version <= Version.V4_9_3 and UNIQUE_KEY_QUERY in fields
            text, texts = signed_form(fields, UNIQUE_KEY_QUERY if is_old else None)
            request = _Request(command, connection, account, texts)
            if len(command.body) > HASHED_AT_ONCE_SIZE_MAX:
                connection.hold_reading(Hold.SIGNATURE)
                return _released(
                    self._hash_in_thread(request, text, rights, handler),
                    connection,
                    Hold.SIGNATURE,
                )
            signature = account.key.signature(text, command.body)
            if not _is_given(signature, texts):
                return self._refuse(command, connection, WRONG_SIGNATURE)
            return admit(request, rights, handler)

        return guarded_handler

    def _rights(self, code: int) -> _Rights | None:
        """What requests of a code need; None if the policies are not asked."""
        if not self._authorizes or code in self._unasked_codes or code == UNKNOWN_CODE:
            return None
        parts = self._needs.get(code, ONLY_SUPER)
        return _Rights(code, parts, self._facts, _getter(parts))

    # -- users who have signed otherwise ------------------------------------------------------

    def known_table(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Guards handlers for connections whose attribute `USER` is known to be right."""
        return {code: self._guard_known(code, handler) for code, handler in handlers.items()}

    def _guard_known(self, code: int, handler: Handler) -> Handler:
        if code in self._open_codes:
            return handler
        rights = self._rights(code)

        @wraps(handler)
        def guarded_handler(command: Command, connection: Connection) -> Reply:
            name: str = connection.attributes[USER]
            account = self._accounts.get(name) or self.account(name)
            if account is None:
                return self._refuse(command, connection, f"User:{name} is not found.")
            if not account.is_enabled:
                return self._refuse(command, connection, f"User:{name} is disabled.")
            texts = {key: str(value) for key, value in command.fields.items()}
            return self._admit(_Request(command, connection, account, texts), rights, handler)

        return guarded_handler

    def account(self, name: str) -> Account | None:
        """Returns what is kept of a user; None if there is no such user."""
        return self._accounts.find(name)

    def missing(self, name: str, needs: Sequence[Need], source_ip: str) -> str | None:
        """Says why a user lacks a right; None if it has all of them, or nobody is asked."""
        account = self.account(name)
        if account is None or not account.is_enabled:
            return f"User:{name} is not found, or disabled."
        if not self._authorizes or account.is_super:
            return None
        return refusal(account, needs, source_ip)

    async def _hash_in_thread(
        self, request: _Request, text: bytes, rights: _Rights | None, handler: Handler
    ) -> Reply:
        """Checks the signature of a large body, and calls the handler."""
        command, account = request.command, request.account
        signature = await asyncio.to_thread(account.key.signature, text, command.body)
        is_genuine = _is_given(signature, request.texts)
        if not is_genuine or self._accounts.get(account.name) is not account:
            return self._refuse(command, request.connection, WRONG_SIGNATURE)
        return self._admit(request, rights, handler)

    def _admit(self, request: _Request, rights: _Rights | None, handler: Handler) -> Reply:
        """Handles a request whose sender is known, if the policies allow that."""
        command, connection, account, texts = request
        attributes = connection.attributes
        if attributes.get(USER) != account.name:
            note_user(connection, account.name)
        if command.raw.__class__ is msgspec.Raw:
            command.raw = texts  # the handler must not read the same bytes in another way
        if rights is None or account.is_super:
            return handler(command, connection)
        source_ip: str = attributes[_SOURCE_IP]
        key = rights.key(texts, source_ip)
        if key is not None and key in account.grants:
            return handler(command, connection)
        try:
            needs = rights.needs(texts, command.body)
        except ResponseError as e:
            return self._refuse(command, connection, e.remark or "", is_known=True)
        if len(needs) > NEEDS_AT_ONCE_MAX:
            connection.hold_reading(Hold.PERMISSIONS)
            return _released(
                self._ask_in_turns(request, needs, handler), connection, Hold.PERMISSIONS
            )
        remark = refusal(account, needs, source_ip)
        if remark is not None:
            return self._refuse(command, connection, remark, is_known=True)
        if key is not None:
            account.grant(key)
        return handler(command, connection)

    async def _ask_in_turns(
        self, request: _Request, needs: Sequence[Need], handler: Handler
    ) -> Reply:
        command, connection, account, _ = request
        source_ip: str = connection.attributes[_SOURCE_IP]
        for start in range(0, len(needs), NEEDS_AT_ONCE_MAX):
            remark = refusal(account, needs[start : start + NEEDS_AT_ONCE_MAX], source_ip)
            if remark is None and self._accounts.get(account.name) is not account:
                remark = f"User:{account.name} was changed while the request was checked: repeat it"
            if remark is not None:
                return self._refuse(command, connection, remark, is_known=True)
            await self._next_turn()
        return handler(command, connection)

    def _refuse_stranger(self, command: Command, connection: Connection) -> Command:
        """Refuses a request that names no user, or one that nobody knows."""
        name = _name_of(command)
        return self._refuse(command, connection, f"User:{name} is not found." if name else NO_NAME)

    def _refuse(
        self, command: Command, connection: Connection, remark: str, *, is_known: bool = False
    ) -> Command:
        self.refused.notify(
            RefusedRequest(
                connection, command.code, _name_of(command), is_known, remark, command.is_oneway
            )
        )
        return Command(ResponseCode.NO_PERMISSION, remark=remark)


class _Request(NamedTuple):
    """A request whose sender has an account; `texts` are its fields."""

    command: Command
    connection: Connection
    account: Account
    texts: _Texts


class _Rights(NamedTuple):
    """What the requests of one code need.

    Attributes:
        code: of the requests.
        parts: of the table.
        facts: of the server.
        getter: of the fields that alone decide about the needs; None if others do, too.
    """

    code: int
    parts: Sequence[Part]
    facts: Facts
    getter: Callable[[_Texts], object] | None

    def key(self, texts: _Texts, source_ip: str) -> object | None:
        """What decides about a request, to remember a decision by; None if too much does."""
        if self.getter is None:
            return None
        try:
            return self.code, source_ip, self.getter(texts)
        except KeyError:
            return None

    def needs(self, texts: _Texts, body: bytes) -> list[Need]:
        """The needs of a request, in the order in which they are checked.

        Raises:
            ResponseError: the request does not say what it is about.
        """
        return [need for part in self.parts for need in part.needs(texts, body, self.facts)]


def _is_given(signature: bytes, fields: Mapping[str, object]) -> bool:
    """Whether a request has this signature, compared in constant time."""
    given = fields.get(SIGNATURE)
    return isinstance(given, str) and compare_digest(signature, given.encode())


def _getter(parts: Sequence[Part]) -> Callable[[_Texts], object] | None:
    names = key_fields(parts)
    return itemgetter(*names) if names else None


def refusal(account: Account, needs: Sequence[Need], source_ip: str) -> str | None:
    """Says in RocketMQ's words why a user may not do something; None if it may.

    Args:
        account: of the user.
        needs: all of which have to be allowed.
        source_ip: the address that it comes from.
    """
    for need in needs:
        key = (need, source_ip)
        if key in account.grants:
            continue
        verdict = decide(account.acl, need, source_ip)
        if not verdict.is_allowed:
            return (
                f"User:{account.name} has no permission to access {need.resource} from "
                f"{source_ip}, {verdict.reason}"
            )
        account.grant(key)
    return None


def _name_of(command: Command) -> str:
    """The name that a request gives, or as much of it as can be repeated."""
    try:
        name = command.fields.get(ACCESS_KEY)
    except ContentError:
        return ""
    return "" if name is None else str(name)[:NAME_LENGTH_MAX]


def note_user(connection: Connection, name: str) -> None:
    """Notes whose requests come over a connection."""
    attributes = connection.attributes
    attributes[USER] = name
    attributes.setdefault(USERS, set()).add(name)
    if _SOURCE_IP not in attributes:
        attributes[_SOURCE_IP] = connection.remote_address.rpartition(":")[0].strip("[]")


async def _released(
    reply: Awaitable[Reply], connection: Connection, reason: Hold
) -> Command | None:
    """Takes the next request of a connection when this one's handler was called, or refused."""
    try:
        answer = await reply
    finally:
        connection.release_reading(reason)
    return await answer if isinstance(answer, Awaitable) else answer
