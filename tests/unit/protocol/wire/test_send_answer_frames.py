from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.protocol.strategies import CODECS, INT32

from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import FLAG_RESPONSE, Codec, Command
from pocketmq.protocol.wire.send_answer_frames import send_answer_frames

IDS = st.text("0123456789ABCDEF", min_size=1, max_size=40)


@given(
    codec=CODECS,
    region=st.text(min_size=1, max_size=20),
    trace_on=st.booleans(),
    opaque=INT32,
    msg_id=st.lists(IDS, min_size=1, max_size=40).map(",".join),
    queue_id=st.integers(0, 70_000),
    queue_offset=st.integers(0, 1 << 62),
    transaction_id=st.none() | st.text(min_size=1, max_size=40),
)
def test_they_equal_the_frames_of_typed_answers(
    codec: Codec,
    region: str,
    trace_on: bool,
    opaque: int,
    msg_id: str,
    queue_id: int,
    queue_offset: int,
    transaction_id: str | None,
) -> None:
    header = SendMessageResponse(
        msg_id=msg_id,
        queue_id=queue_id,
        queue_offset=queue_offset,
        transaction_id=transaction_id,
        region=region,
        trace_on=trace_on,
    )
    typed = Command(0, opaque, FLAG_RESPONSE, header=header, codec=codec)
    frame = send_answer_frames(region, trace_on)[codec]
    assert frame(opaque, msg_id, queue_id, queue_offset, transaction_id) == frames.encode(typed)


def test_there_is_one_for_each_codec() -> None:
    assert set(send_answer_frames("r", True)) == set(Codec)
