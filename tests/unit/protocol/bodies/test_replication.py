"""The report of a member of a broker set."""

from __future__ import annotations

import pytest

from pocketmq.protocol.bodies.replication import LogEnd, MemberReport
from pocketmq.protocol.errors import ContentError


def test_a_report_is_read_as_it_is_written() -> None:
    report = MemberReport(
        cluster="c", broker_name="a", member_id=1, address="m:1", set_id="s", directory_id="d",
        epoch=3, role="waiting", promise_ms=7, state=b"{}", version=-1, gap="", told="why",
        logs=[LogEnd(1, "T", 0, 100, 2, [(1, 0), (3, 50)])],
    )  # fmt: skip
    assert MemberReport.decode(report.encode()) == report


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x93\x01\x02\x03"])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(ContentError, match="the report of a member cannot be read"):
        MemberReport.decode(data)
