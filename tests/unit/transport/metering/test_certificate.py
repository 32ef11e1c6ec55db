from __future__ import annotations

import pytest

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.metrics.exposition import Exposition, Format, label_text
from pocketmq.transport.metering.certificate import CERTIFICATE_EXPIRY, write_expiry


@pytest.mark.parametrize(
    ("expires_ms", "line"),
    [(1_700_000_000_400.0, f'{CERTIFICATE_EXPIRY.name}{{node="a"}} 1700000000'), (None, "")],
)
def test_a_certificate_has_a_sample(expires_ms: float | None, line: str) -> None:
    out = Exposition(Format.TEXT, SystemClock())
    write_expiry(out, label_text({"node": "a"}), expires_ms)
    lines = [text for text in out.end().decode().splitlines() if not text.startswith("#")]
    assert lines == ([line] if line else [])
