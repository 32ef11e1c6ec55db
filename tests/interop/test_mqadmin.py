"""Apache's mqadmin on this cluster and on Apache's own, with the same content.

All sub-commands of one cluster run in one JVM, which also tells what they were answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path

import pytest
from support.interop.apache_servers import BROKER_NAME, apache_cluster
from support.interop.clusters import HOST, Cluster
from support.interop.java_probe import JavaProbe
from support.mqadmin.answers import answers, differences
from support.mqadmin.calls import (
    CHANGING,
    IN_BACKGROUND,
    LOCAL,
    NEVER_SENT,
    NONSENSE,
    READ_ONLY,
    REFUSED,
    STRICTER,
)
from support.mqadmin.runs import Outcome, operate

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

pytestmark = [pytest.mark.interop, pytest.mark.whole_interop, pytest.mark.timeout(1500)]

COMPATIBILITY = Path(__file__).parents[2] / "docs" / "compatibility.md"
CALLS = (*READ_ONLY, *CHANGING, *NONSENSE)
UNHEARD_OF = 9999
"""A request code that nobody has."""

TIMEOUT_MS = 60_000


class Outcomes:
    """What the two clusters said, and what this project's servers logged meanwhile."""

    def __init__(self, ours: Outcome, theirs: Outcome, log: list[logging.LogRecord]) -> None:
        self.ours, self.theirs, self.log = ours, theirs, log


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(scope="module")
def outcomes(probe: JavaProbe, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    if not probe.is_5:
        pytest.skip("the sub-commands are those of 5.5.0")
    folder = tmp_path_factory.mktemp("mqadmin")
    for name in ("theirs", "ours"):
        (folder / name).mkdir()
    with apache_cluster(folder / "apache") as cluster:
        theirs = asyncio.run(operate(probe, cluster, CALLS, folder / "theirs"))
    kept, log = _Kept(), logging.getLogger("pocketmq")
    level = log.level
    log.addHandler(kept)
    log.setLevel(logging.INFO)
    try:
        ours = asyncio.run(_on_this_cluster(probe, folder))
    finally:
        log.removeHandler(kept)
        log.setLevel(level)
    return Outcomes(ours, theirs, kept.records)


async def _on_this_cluster(probe: JavaProbe, folder: Path) -> Outcome:
    namesrv_config = NamesrvConfig(listen_port=0, bind_address=HOST)
    async with NameServer(namesrv_config) as namesrv:
        config = BrokerConfig(
            listen_port=0, bind_address=HOST, namesrv_addr=namesrv.address,
            store_path_root_dir=str(folder / "store"), disk_space_free_min=0,
        )  # fmt: skip
        async with Broker(config) as broker:
            cluster = Cluster(namesrv.address, {BROKER_NAME: broker.address})
            calls = (*CALLS, *REFUSED, *LOCAL)
            outcome = await operate(probe, cluster, calls, folder / "ours")
            for address in (namesrv.address, broker.address):
                await _ask_the_unheard_of(address)
            return outcome


async def _ask_the_unheard_of(address: str) -> None:
    """Shows what a server's log says of a request code that it does not know."""
    pool = ConnectionPool(SystemClock())
    connection = await pool.get(address)
    answer = await connection.call(Command(UNHEARD_OF), TIMEOUT_MS)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    await pool.close()


@pytest.mark.parametrize("words", READ_ONLY)
def test_answers_are_apaches_field_by_field(outcomes: Outcomes, words: str) -> None:
    found = list(differences(outcomes.ours, outcomes.theirs, words))
    assert not found, "\n".join(found)
    assert answers(outcomes.ours, words), "nothing was asked"
    ours, theirs = outcomes.ours.seen[words], outcomes.theirs.seen[words]
    assert bool(ours.errors) == bool(theirs.errors)
    assert ("null" in ours.printed) <= ("null" in theirs.printed)


@pytest.mark.parametrize("words", CHANGING)
def test_changes_are_taken_alike(outcomes: Outcomes, words: str) -> None:
    ours, theirs = codes(outcomes.ours, words), codes(outcomes.theirs, words)
    if words == IN_BACKGROUND:  # it goes on while the others change what it sees
        ours, theirs = ({code: seen[code] for code in (206, 208)} for seen in (ours, theirs))
    assert ours == theirs
    assert outcomes.ours.seen[words].exchanges


@pytest.mark.parametrize("words", NONSENSE)
def test_nonsense_is_told_as_apache_tells_it(outcomes: Outcomes, words: str) -> None:
    """The code, and a remark that begins as Apache's does, or a stricter code with its reason."""
    ours, theirs = codes(outcomes.ours, words), codes(outcomes.theirs, words)
    assert bool(ours) == (words not in NEVER_SENT)
    if words in STRICTER:
        request, code, _ = STRICTER[words]
        assert (ours[request], theirs[request]) == ({code}, {ResponseCode.SUCCESS})
    else:
        assert ours == theirs
    for asked, fields in answers(outcomes.ours, words).items():
        remark = str(fields.get("remark", ""))
        assert "Traceback" not in remark
        their_fields = answers(outcomes.theirs, words).get(asked, {})
        known = str(their_fields.get("remark", "")).split("\nSee ")[0]
        if fields["code"] == their_fields.get("code") != ResponseCode.SUCCESS:
            assert told(remark).startswith(told(known)), (asked, remark, known)
        if fields["code"]:
            assert remark, asked


def told(remark: str) -> str:
    """A remark without addresses, and without what an uncaught exception of Java's adds to it."""
    thrown = re.fullmatch(r"java\.lang\.RuntimeException: (.*), org\.apache\.[\w.]+\(.*\)", remark)
    return re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", thrown[1] if thrown else remark)


def codes(outcome: Outcome, words: str) -> dict[int, set[int]]:
    """The codes of all answers by request, without what clients ask in the background."""
    found: dict[int, set[int]] = {}
    for asked, fields in answers(outcome, words).items():
        found.setdefault(int(asked.split()[0]), set()).add(fields["code"])
    return found


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_apply_is_refused_with_words_that_help(
    outcomes: Outcomes, words: str
) -> None:
    request = REFUSED[words]
    refused = [
        exchange
        for exchange in outcomes.ours.seen[words].exchanges
        if exchange.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    ]
    if request is None:
        assert not refused
        return
    assert {exchange.request for exchange in refused} == {request}
    assert all(re.match(r" request type \d+ not supported: \w", e.remark or "") for e in refused)


def test_no_request_code_is_unknown(outcomes: Outcomes) -> None:
    """Neither in the answers to what applies nor in the logs of broker and name server."""
    for words in CALLS:
        for exchange in outcomes.ours.seen[words].exchanges:
            assert exchange.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED, (words, exchange)
    logged = "\n".join(record.getMessage() for record in outcomes.log)
    unknown = re.findall(r"request code (\d+) of \S+ is not supported", logged)
    assert list(map(int, unknown)) == [UNHEARD_OF, UNHEARD_OF]  # of each server, by the fixture
    troubles = [r.getMessage() for r in outcomes.log if r.levelno >= logging.ERROR or r.exc_info]
    assert troubles == []


def test_every_sub_command_is_run_or_listed(probe: JavaProbe) -> None:
    """mqadmin's own list, the calls of these tests and the table of the document agree."""
    (answer,) = probe.run("mqadmin", calls=json.dumps([[]]))
    there_are = set(re.findall(r"^   (\w+) ", answer["printed"], re.MULTILINE))
    section = COMPATIBILITY.read_text().split("## mqadmin")[1]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))
    assert rows.keys() == there_are
    works = {call.split()[0] for call in CALLS}
    refused = {call.split()[0] for call, request in REFUSED.items() if request is not None}
    apart = {call.split()[0] for call in (*LOCAL, *(c for c, r in REFUSED.items() if r is None))}
    assert works | refused | apart == there_are
    for name, says in rows.items():
        word = "works" if name in works else "refused: " if name in refused else "does not apply: "
        assert says.startswith(word), (name, says)
    assert f"All {len(there_are)} sub-commands" in section


def test_figures_count_what_was_sent(outcomes: Outcomes) -> None:
    status = outcomes.ours.seen["brokerStatus -b BROKER"].table(":")
    assert int(status["putMessageTimesTotal"]) >= 20
    assert status["msgPutTotalTodayNow"] == status["putMessageTimesTotal"]
    size = int(status["putMessageSizeTotal"])
    assert float(status["putMessageAverageSize"]) == size / int(status["putMessageTimesTotal"])
