from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.handlers.sending.send_properties import SendProperties
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock

SETTINGS = SendSettings(
    cluster="C",
    region="R",
    body_size_max=1,
    permission=6,
    queue_nums_max=8,
    trace_on=True,
    rejects_transactions=False,
)
ADDED = "MSG_REGION\x01R\x02TRACE_ON\x01true\x02CLUSTER\x01C\x02"
PARTS = st.sampled_from(["UNIQ_KEY", "A", "\x01", "\x02", "u1", "xUNIQ_KEY\x01", "UNIQ_KEY\x01"])


STORE_HOST = encode_host("127.0.0.1", 10911)


def send_properties(settings: Live[SendSettings] | None = None) -> SendProperties:
    return SendProperties(settings or Live(SETTINGS), STORE_HOST, VirtualClock(), Random(1))


@given(st.lists(PARTS, max_size=8).map("".join))
def test_a_given_key_is_found_wherever_it_stands_and_a_missing_one_is_made(sent: str) -> None:
    unique, text = send_properties().complete(sent)
    known = props.value_of(sent, props.UNIQ_KEY)
    assert text.startswith(sent)
    assert text.endswith(props.VALUE_END + ADDED)
    if known is not None:
        assert unique == known
        assert len(text) <= len(sent) + 1 + len(ADDED)
    else:
        assert f"\x02UNIQ_KEY\x01{unique}\x02" in "\x02" + text
        assert len(unique) == 32


@pytest.mark.parametrize("sent", ["", "a\x01b\x02", "UNIQ_KEY\x01k\x02a\x01b"])
def test_renewing_what_was_completed_changes_nothing(sent: str) -> None:
    properties = send_properties()
    unique, text = properties.complete(sent)
    assert properties.renew(text + "POP_CK\x01x\x02") == (unique, text)


def test_other_settings_count_from_the_next_message() -> None:
    settings = Live(SETTINGS)
    properties = send_properties(settings)
    settings.replace(msgspec.structs.replace(SETTINGS, region="S"))
    assert "MSG_REGION\x01S\x02" in properties.complete("a\x01b\x02")[1]
