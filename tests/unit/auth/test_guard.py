"""The guard before a bare server's handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from support.peers.transport import RawPeer, Stage, until

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.guard import HASHED_AT_ONCE_SIZE_MAX, NEEDS_AT_ONCE_MAX, USER, Guard
from pocketmq.auth.needs import bodies
from pocketmq.auth.needs.parts import Facts
from pocketmq.auth.needs.table import NeedsTable, cluster, in_body, topic
from pocketmq.auth.refused import RefusedRequest
from pocketmq.auth.rights.policies import Action
from pocketmq.auth.users import User, UserStatus, UserType
from pocketmq.protocol.bodies.clients import ConsumerData, Heartbeat
from pocketmq.protocol.codes import ResponseCode, Version
from pocketmq.protocol.signing import ACCESS_KEY, SIGNATURE, Credentials, sign, signature
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Codec, Command
from pocketmq.protocol.wire.header import Header
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection, Reply

ROOT, BARE, OFF = (
    Credentials("root", "root-secret"),
    Credentials("bare", "bare-secret"),
    Credentials("off", "off-secret"),
)
TOPIC, CLUSTER, BODY, FREE, LISTED, LATER = 310, 26, 34, 105, 400_000, 17

NEEDS: NeedsTable = {
    TOPIC: (topic(Action.PUB),),
    CLUSTER: (cluster(Action.GET),),
    BODY: (in_body("", bodies.heartbeat),),
    FREE: (),
    LATER: (topic(Action.CREATE),),
}


class TopicHeader(Header):
    topic: str


class Served:
    """A guarded server that notes what reached its handlers."""

    def __init__(self) -> None:
        self.directory = UserDirectory()
        for credentials, kind, status in (
            (ROOT, UserType.SUPER, UserStatus.ENABLE),
            (BARE, UserType.NORMAL, UserStatus.ENABLE),
            (OFF, UserType.SUPER, UserStatus.DISABLE),
        ):
            self.directory.put_user(
                User(credentials.access_key, credentials.secret_key, kind, status, 0)
            )
        self.handled: list[tuple[int, bytes]] = []
        self.users: list[object] = []
        self.refused: list[RefusedRequest] = []

    def guard(self, **options: Any) -> Guard:
        facts = Facts(lambda: ("c1",))
        guard = Guard(
            self.directory, NEEDS, facts, lambda: settle(1), **{"authorizes": True} | options
        )
        guard.refused.add(self.refused.append)
        return guard

    def handle(self, command: Command, connection: Connection) -> Reply:
        self.handled.append((command.code, bytes(command.body)))
        self.users.append(connection.attributes.get(USER))
        if command.code == TOPIC:
            command.read(TopicHeader)
        return Command(0, body=b"done")

    async def handle_later(self, command: Command, connection: Connection) -> Command | None:
        await settle(1)
        self.handle(command, connection)
        return Command(0, body=b"done later")


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage(VirtualClock())
    yield stage
    await stage.close()


async def dial(stage: Stage, served: Served, **options: Any) -> RawPeer:
    handlers = served.guard(**options).table(
        {
            **dict.fromkeys((TOPIC, CLUSTER, BODY, FREE, LISTED), served.handle),
            LATER: served.handle_later,
        }
    )
    view_codes = frozenset({TOPIC})
    return await stage.dial(await stage.serve(handlers, view_codes=view_codes))


def signed(credentials: Credentials, command: Command) -> Command:
    sign(command, credentials)
    return command


async def ask(peer: RawPeer, *commands: Command) -> list[tuple[int, str | None]]:
    for number, command in enumerate(commands):
        command.opaque = number
    already = len(peer.received)
    peer.send(*commands)
    answers = (await peer.got(already + len(commands)))[already:]
    return [(a.code, a.remark) for a in sorted(answers, key=lambda answer: answer.opaque)]


REFUSED = ResponseCode.NO_PERMISSION


class TestAuthentication:
    async def test_refusals_have_rocketmqs_words(self, stage: Stage) -> None:
        served = Served()
        peer = await dial(stage, served)
        unsigned = Command(TOPIC, extra={"topic": "T"})
        nobody = signed(Credentials("zz", "x"), Command(TOPIC, extra={"topic": "T"}))
        disabled = signed(OFF, Command(TOPIC, extra={"topic": "T"}))
        wrong = signed(Credentials("root", "wrong"), Command(TOPIC, extra={"topic": "T"}))
        no_signature = Command(TOPIC, extra={"topic": "T", ACCESS_KEY: "root"})
        no_fields = Command(CLUSTER)
        assert await ask(
            peer, unsigned, nobody, disabled, wrong, no_signature, no_fields, Command(99)
        ) == [
            (REFUSED, "username cannot be null."),
            (REFUSED, "User:zz is not found."),
            (REFUSED, "User:off is disabled."),
            (REFUSED, "check signature failed."),
            (REFUSED, "check signature failed."),
            (REFUSED, "username cannot be null."),
            (REFUSED, "username cannot be null."),
        ]
        assert served.handled == []
        assert [r.user for r in served.refused] == ["", "zz", "off", "root", "root", "", ""]
        assert {r.is_known for r in served.refused} == {False}

    async def test_a_signed_request_of_an_unknown_code_is_answered_with_3(
        self, stage: Stage
    ) -> None:
        peer = await dial(stage, Served())
        answer = await ask(peer, signed(BARE, Command(99)), signed(ROOT, Command(99)))
        assert answer == [(3, " request type 99 not supported")] * 2

    @pytest.mark.parametrize("codec", list(Codec))
    async def test_all_codecs_are_read_as_they_are_signed(self, stage: Stage, codec: Codec) -> None:
        served = Served()
        peer = await dial(stage, served)
        commands = [
            signed(ROOT, Command(TOPIC, extra={"topic": "T", "n": str(n)}, body=b"b", codec=codec))
            for n in range(4)  # the binary codec remembers the layout
        ]
        assert await ask(peer, *commands) == [(0, None)] * 4
        assert served.handled == [(TOPIC, b"b")] * 4
        assert set(served.users) == {"root"}
        tampered = signed(ROOT, Command(TOPIC, extra={"topic": "T", "n": "1"}, codec=codec))
        assert tampered.extra is not None
        tampered.extra["n"] = "2"
        assert await ask(peer, tampered) == [(REFUSED, "check signature failed.")]

    async def test_numbers_of_the_own_codec_count_as_text(self, stage: Stage) -> None:
        peer = await dial(stage, Served())
        fields: dict[str, Any] = {"topic": 5, "n": True, "none": None, ACCESS_KEY: "root"}
        fields[SIGNATURE] = signature("root-secret", b"roottrue5")
        command = Command(TOPIC, codec=Codec.MSGPACK)
        command.raw = fields
        assert await ask(peer, command) == [(0, None)]

    async def test_old_clients_do_not_sign_the_flag_of_a_unique_key(self, stage: Stage) -> None:
        peer = await dial(stage, Served())
        for version, expected in ((Version.V4_9_3, 0), (Version.V5_5_0, REFUSED)):
            command = signed(ROOT, Command(TOPIC, extra={"topic": "T"}, version=version))
            assert command.extra is not None
            command.extra["_UNIQUE_KEY_QUERY"] = "true"
            ((code, _),) = await ask(peer, command)
            assert code == expected
        new = Command(TOPIC, extra={"topic": "T", "_UNIQUE_KEY_QUERY": "true"})
        assert await ask(peer, signed(ROOT, new)) == [(0, None)]

    async def test_a_change_of_the_user_counts_for_the_next_request(self, stage: Stage) -> None:
        served = Served()
        peer = await dial(stage, served)

        def request() -> Command:
            return signed(ROOT, Command(CLUSTER))

        assert await ask(peer, request()) == [(0, None)]
        served.directory.put_user(User("root", "new", UserType.SUPER, UserStatus.ENABLE, 0))
        assert await ask(peer, request()) == [(REFUSED, "check signature failed.")]
        served.directory.put_user(
            User("root", "root-secret", UserType.NORMAL, UserStatus.ENABLE, 0)
        )
        ((code, remark),) = await ask(peer, request())
        assert code == REFUSED
        assert "no permission to access Cluster:c1 from 127.0.0.1, no matched policies." in str(
            remark
        )
        served.directory.delete_user("root")
        assert await ask(peer, request()) == [(REFUSED, "User:root is not found.")]

    async def test_a_one_way_request_is_dropped_and_noted(self, stage: Stage) -> None:
        served = Served()
        peer = await dial(stage, served)
        peer.send(Command(TOPIC, flag=FLAG_ONEWAY, extra={"topic": "T"}))
        await until(lambda: served.refused)
        assert served.refused[0].is_oneway
        assert await ask(peer, signed(ROOT, Command(FREE))) == [(0, None)]
        assert (len(peer.received), served.handled) == (1, [(FREE, b"")])

    async def test_a_large_body_is_hashed_apart_and_keeps_its_place(self, stage: Stage) -> None:
        served = Served()
        peer = await dial(stage, served)
        large = b"x" * (HASHED_AT_ONCE_SIZE_MAX + 1)
        assert await ask(
            peer,
            signed(ROOT, Command(TOPIC, extra={"topic": "T"}, body=large)),
            signed(ROOT, Command(TOPIC, extra={"topic": "T"}, body=b"small")),
            signed(Credentials("root", "no"), Command(TOPIC, extra={"topic": "T"}, body=large)),
            signed(ROOT, Command(LATER, extra={"topic": "T"}, body=large)),
            signed(ROOT, Command(TOPIC, extra={"topic": "T"}, body=b"last")),
            signed(BARE, Command(TOPIC, extra={"topic": "T"}, body=large)),
        ) == [
            (0, None),
            (0, None),
            (REFUSED, "check signature failed."),
            (0, None),
            (0, None),
            (
                REFUSED,
                "User:bare has no permission to access Topic:T from 127.0.0.1, "
                "no matched policies.",
            ),
        ]
        assert [body for _, body in served.handled[:2]] == [large, b"small"]

    async def test_a_connection_that_is_lost_while_its_body_is_hashed_is_forgotten(
        self, stage: Stage
    ) -> None:
        served = Served()
        peer = await dial(stage, served)
        large = b"x" * (HASHED_AT_ONCE_SIZE_MAX + 1)
        peer.send(signed(Credentials("root", "no"), Command(TOPIC, body=large)))
        await settle(3)
        peer.transport.abort()
        await peer.gone()
        assert served.handled == []

    async def test_a_flood_of_unsigned_requests_makes_no_signature(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise AssertionError("work was done for a stranger")

        served = Served()
        peer = await dial(stage, served)
        for name in ("signed_form", "refusal"):
            monkeypatch.setattr(f"pocketmq.auth.guard.{name}", fail)
        flood = [Command(TOPIC, extra={"topic": "T"}, body=b"x" * 1000) for _ in range(200)]
        assert set(await ask(peer, *flood)) == {(REFUSED, "username cannot be null.")}
        unknown = [Command(TOPIC, extra={ACCESS_KEY: f"u{n}"}) for n in range(200)]
        assert {code for code, _ in await ask(peer, *unknown)} == {REFUSED}


class TestAuthorization:
    async def test_a_bare_user_may_nothing_and_a_super_user_everything(self, stage: Stage) -> None:
        served = Served()
        peer = await dial(stage, served)
        heartbeat = Heartbeat(
            client_id="c", consumer_data_set=[ConsumerData(group_name="g")]
        ).encode()

        def requests(credentials: Credentials) -> list[Command]:
            return [
                signed(credentials, command)
                for command in (
                    Command(TOPIC, extra={"topic": "T"}),
                    Command(TOPIC, extra={"topic": "%RETRY%g"}),
                    Command(CLUSTER),
                    Command(BODY, body=heartbeat),
                    Command(LISTED),
                    Command(LATER, extra={"topic": "T"}),
                )
            ]

        def no(what: str) -> tuple[int, str]:
            return (
                REFUSED,
                f"User:bare has no permission to access {what} from 127.0.0.1, "
                f"no matched policies.",
            )

        assert await ask(peer, *requests(BARE)) == [
            no("Topic:T"),
            no("Group:g"),
            no("Cluster:c1"),
            no("Group:g"),
            (REFUSED, "only Super users and the servers of the cluster may send this request"),
            no("Topic:T"),
        ]
        assert served.handled == []
        assert {r.is_known for r in served.refused} == {True}
        assert await ask(peer, *requests(ROOT)) == [(0, None)] * 6

    async def test_what_cannot_be_understood_is_refused(self, stage: Stage) -> None:
        peer = await dial(stage, Served())
        answers = await ask(
            peer,
            signed(BARE, Command(TOPIC)),
            signed(BARE, Command(BODY, body=b"no JSON")),
            signed(BARE, Command(BODY, body=b'{"clientID":5}')),
        )
        assert {code for code, _ in answers} == {REFUSED}
        assert all(
            str(text).startswith("parse authorization context error.") for _, text in answers
        )

    async def test_very_many_needs_are_decided_in_turns(self, stage: Stage) -> None:
        served = Served()
        peer = await dial(stage, served)
        groups = [ConsumerData(group_name=f"g{n}") for n in range(NEEDS_AT_ONCE_MAX + 1)]
        body = Heartbeat(client_id="c", consumer_data_set=groups).encode()
        ((code, remark),) = await ask(peer, signed(BARE, Command(BODY, body=body)))
        assert (code, "Group:g0" in str(remark)) == (REFUSED, True)

    async def test_without_authorization_every_known_user_may_everything(
        self, stage: Stage
    ) -> None:
        peer = await dial(stage, Served(), authorizes=False)
        assert await ask(peer, signed(BARE, Command(LISTED)), Command(LISTED)) == [
            (0, None),
            (REFUSED, "username cannot be null."),
        ]

    async def test_listed_codes_are_open(self, stage: Stage) -> None:
        peer = await dial(
            stage, Served(), open_codes=frozenset({TOPIC}), unasked_codes=frozenset({CLUSTER})
        )
        assert await ask(
            peer,
            Command(TOPIC, extra={"topic": "T"}),
            signed(BARE, Command(CLUSTER)),
            Command(CLUSTER),
        ) == [(0, None), (0, None), (REFUSED, "username cannot be null.")]


async def lone_connection() -> Connection:
    return Connection(SystemClock(), {})


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
FIELDS = st.dictionaries(
    st.text() | st.sampled_from([ACCESS_KEY, SIGNATURE, "topic", "_UNIQUE_KEY_QUERY"]),
    SCALARS | st.sampled_from(["root", "bare", "off", "T", "x" * 100_000]) | st.lists(SCALARS),
)


@given(FIELDS, st.sampled_from([TOPIC, CLUSTER, BODY, FREE, LISTED, 99]), st.integers(0, 600))
def test_whatever_fields_come_nothing_passes_without_a_signature(
    fields: dict[str, Any], code: int, version: int
) -> None:
    """Invariant: without a valid signature no handler is called, and 16 is answered."""
    served = Served()
    table = served.guard().table(dict.fromkeys(NEEDS, served.handle))
    connection = asyncio.run(lone_connection())
    command = Command(code, version=version)
    command.raw = fields
    handler = table.get(code) or table[-1]
    reply = handler(command, connection)
    assert isinstance(reply, Command)
    assert reply.code == REFUSED
    assert len(reply.remark or "") < 1000
    assert served.handled == []


@given(FIELDS, st.sampled_from([TOPIC, CLUSTER, BODY, LISTED]), st.binary())
def test_whatever_a_bare_user_signs_it_is_refused(
    fields: dict[str, Any], code: int, body: bytes
) -> None:
    """Invariant: a user without policies passes with nothing that needs a policy."""
    texts = {k: v for k, v in fields.items() if isinstance(v, str)}
    command = Command(code, extra=texts, body=body)
    sign(command, BARE)
    command.raw, command.extra = command.extra, None
    served = Served()
    handler = served.guard().table(dict.fromkeys(NEEDS, served.handle))[
        code if code in NEEDS else -1
    ]
    connection = asyncio.run(lone_connection())
    reply = handler(command, connection)
    assert isinstance(reply, Command)
    if code in NEEDS:
        assert reply.code == REFUSED or (code == BODY and not served.refused)
