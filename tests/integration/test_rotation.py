"""Certificates and passwords are changed while signed senders over TLS go on: nothing is lost."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from support.brokers.broker_parts import LOCALHOST, TOPIC, Client, Stage
from support.brokers.secured import ADMIN, SETTINGS, user_of
from support.peers.certificates import CertificateFiles
from support.peers.transport import until

from pocketmq.auth.users import UserStatus, UserType
from pocketmq.broker import Broker
from pocketmq.protocol.bodies.users import UserInfo
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.protocol.requests.users import UpdateUserRequest
from pocketmq.protocol.signing import Credentials, sign
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tls.reloaded import LOOK_PERIOD_S

SENDERS = 4
SENT_PER_PHASE = 25
ROUNDS = 4


class Sender:
    """Sends numbered messages without an end, and notes those that were acknowledged.

    A refused or broken send is repeated by a new connection, with the credentials of the moment.
    """

    def __init__(self, number: int, broker: Broker, clock: VirtualClock, files: CertificateFiles,
                 credentials: Credentials) -> None:  # fmt: skip
        self.number, self.broker, self.clock, self.files = number, broker, clock, files
        self.credentials = credentials
        self.acknowledged: list[bytes] = []
        self.failed_count = 0
        self.pools: list[ConnectionPool] = []
        self.may_send = asyncio.Event()
        self.may_send.set()

    def client(self) -> Client:
        client = Client(self.broker, self.clock)
        client.pool = ConnectionPool(
            self.clock,
            before_request=(partial(sign, credentials=self.credentials),),
            tls=self.files.client(),
        )
        self.pools.append(client.pool)
        return client

    async def run(self) -> None:
        client, count = self.client(), 0
        while True:
            await self.may_send.wait()
            body = b"%d:%d" % (self.number, count)
            try:
                await client.send(body, queue_id=self.number)
            except (OperatingError, ResponseError):
                self.failed_count += 1
                client = self.client()
                continue
            self.acknowledged.append(body)
            count += 1

    def has_sent(self, count: int) -> bool:
        return len(self.acknowledged) >= count


async def test_rotation_under_load_loses_no_message(
    stage: Stage, clock: VirtualClock, tmp_path: Path
) -> None:
    files = CertificateFiles(tmp_path / "tls", clock=clock)
    broker = await stage.broker(**SETTINGS, **files.config())
    directory = broker.parts.data.users
    sending = Credentials("sender", "password-0")
    directory.put_user(user_of(sending, UserType.SUPER))
    admin = Sender(0, broker, clock, files, ADMIN)
    operator = admin.client()
    await operator.create_topic(TOPIC, SENDERS, SENDERS)
    senders = [Sender(n, broker, clock, files, sending) for n in range(SENDERS)]
    tasks = [asyncio.ensure_future(sender.run()) for sender in senders]
    for number in range(1, ROUNDS + 1):
        files.renew([LOCALHOST], clock)
        for sender in senders:  # time only moves on when nothing is under way
            sender.may_send.clear()
        await clock.advance(LOOK_PERIOD_S)
        for sender in senders:
            sender.may_send.set()
        for sender in senders:
            sender.credentials = Credentials("sender", f"password-{number}")
        change = UserInfo(password=f"password-{number}").encode()
        await operator.ask(UpdateUserRequest(username="sender"), change)
        goals = [(s, len(s.acknowledged) + SENT_PER_PHASE) for s in senders]
        for sender, goal in goals:
            await until(partial(sender.has_sent, goal))
    user = directory.user("sender")
    assert user is not None
    assert user.user_status is UserStatus.ENABLE
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for sender in senders:
        stored = {m.body for m in await operator.everything(queue_id=sender.number)}
        assert set(sender.acknowledged) <= stored
        assert sender.failed_count >= ROUNDS, "each change of the password was met"
        assert len(sender.acknowledged) >= ROUNDS * SENT_PER_PHASE
    for sender in (*senders, admin):
        for pool in sender.pools:
            await pool.close()
