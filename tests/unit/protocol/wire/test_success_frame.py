from __future__ import annotations

from hypothesis import given
from support.protocol.strategies import CODECS, INT32

from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import FLAG_RESPONSE, Codec, Command
from pocketmq.protocol.wire.success_frame import success_frame


@given(codec=CODECS, opaque=INT32)
def test_it_equals_the_frame_of_a_bare_success(codec: Codec, opaque: int) -> None:
    bare = Command(0, opaque, FLAG_RESPONSE, codec=codec)
    assert success_frame(codec, opaque) == frames.encode(bare)
