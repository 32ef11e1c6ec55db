from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from pocketmq.runtime.metrics.exposition import (
    WORK_PER_SLICE,
    Exposition,
    Family,
    Format,
    Kind,
    LabelSets,
    label_text,
)
from pocketmq.testing.clock import VirtualClock, settle

SENT = Family("sent_total", Kind.COUNTER, "Messages sent")
ROOM = Family("room_bytes", Kind.GAUGE, "Room")
COST = Family("cost_seconds", Kind.HISTOGRAM, "Cost", (1, 2.5))
AWKWARD = 'a "topic"\n of \\ many'


def everything(out: Exposition) -> Iterator[int]:
    out.begin(SENT)
    out.sample(label_text({"topic": AWKWARD}), 7)
    out.sample(label_text({}), 8)
    yield 2
    out.begin(ROOM)
    out.sample(label_text({"disk": "a"}), 0.5)
    yield 1
    out.begin(COST)
    out.histogram(label_text({"code": "10"}), COST, (1, 0, 2), 12.5)
    yield 3


EXPECTED = {
    ("sent_total", (("topic", AWKWARD),)): 7,
    ("sent_total", ()): 8,
    ("room_bytes", (("disk", "a"),)): 0.5,
    ("cost_seconds_bucket", (("code", "10"), ("le", "1.0"))): 1,
    ("cost_seconds_bucket", (("code", "10"), ("le", "2.5"))): 1,
    ("cost_seconds_bucket", (("code", "10"), ("le", "+Inf"))): 3,
    ("cost_seconds_sum", (("code", "10"),)): 12.5,
    ("cost_seconds_count", (("code", "10"),)): 3,
}


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("written_as", list(Format))
async def test_prometheus_reads_what_is_written(
    clock: VirtualClock, written_as: Format, is_compressed: bool
) -> None:
    out = Exposition(written_as, clock, is_compressed=is_compressed)
    await out.write(everything(out))
    body = out.end()
    text = (zlib.decompress(body, 16 + zlib.MAX_WBITS) if is_compressed else body).decode()
    parse = (
        openmetrics_families if written_as is Format.OPENMETRICS else text_string_to_metric_families
    )
    families = list(parse(text))
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }
    assert found == EXPECTED
    assert [family.type for family in families] == ["counter", "gauge", "histogram"]
    assert families[0].documentation == "Messages sent"


async def test_others_have_their_turns_while_a_long_page_is_written(clock: VirtualClock) -> None:
    out = Exposition(Format.TEXT, clock)
    written = 0

    def source() -> Iterator[int]:
        nonlocal written
        out.begin(ROOM)
        for written in range(1, 3 * WORK_PER_SLICE + 1):
            out.sample(label_text({"n": str(written)}), written)
            yield 1

    writing = asyncio.ensure_future(out.write(source()))
    seen = set[int]()
    while not writing.done():
        seen.add(written)
        await settle(1)
    assert seen == {0, *(n * WORK_PER_SLICE for n in (1, 2, 3))}
    assert out.end().count(b"\n") == 2 + 3 * WORK_PER_SLICE


def test_label_sets_that_no_scrape_uses_are_forgotten() -> None:
    sets = LabelSets({"node": "a"}, "topic")
    assert sets.text("T") == '{node="a",topic="T"'
    sets.text("U")
    sets.end_scrape()
    assert sets.text("T") is sets.text("T")
    assert len(sets) == 2
    sets.end_scrape()
    assert len(sets) == 1
