"""Ready-made frames for the answers to sends, which are most of a broker's answers.

They are the frames that `frames.encode` makes of a `SendMessageResponse`, put together at once: all
but a few values are the same in every answer of a broker.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgpack
import msgspec

from pocketmq.protocol.codes import PROTOCOL_VERSION, LanguageCode
from pocketmq.protocol.wire.command import FLAG_RESPONSE, Codec

_INT = struct.Struct(">i")
_LENGTHS = struct.Struct(">ii")
_BINARY_HEAD = struct.Struct(">iihbhiiii")
_BINARY_MARK = Codec.BINARY << 24
_FIXED_SIZE = _BINARY_HEAD.size - _LENGTHS.size
_MSGPACK_MARK = Codec.MSGPACK << 24
_LANGUAGE = int(LanguageCode.PYTHON)
_JSON_END = (
    b'},"flag":1,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
    % PROTOCOL_VERSION
)
_pack = msgpack.Packer().pack
_dumps = msgspec.json.Encoder().encode

Frame = Callable[[int, str, int, int, "str | None"], bytes]
"""(opaque, message id, queue id, queue offset, transaction id) → the frame."""


def send_answer_frames(region: str, trace_on: bool) -> dict[int, Frame]:
    """Makes, for each codec, the function that encodes the answer to a stored message.

    Args:
        region, trace_on: of the broker.
    """
    spoken = {"MSG_REGION": region, "TRACE_ON": "true" if trace_on else "false"}
    return {
        Codec.JSON: _json_frames(spoken),
        Codec.BINARY: _binary_frames(spoken),
        Codec.MSGPACK: _msgpack_frames({"MSG_REGION": region, "TRACE_ON": trace_on}),
    }


def _binary_frames(spoken: dict[str, str]) -> Frame:
    def named(name: str) -> bytes:
        return len(name).to_bytes(2, "big") + name.encode()

    def sized(text: bytes) -> bytes:
        return _INT.pack(len(text)) + text

    before = b"".join([named(k) + sized(v.encode()) for k, v in spoken.items()]) + named("msgId")
    queue_id_name, offset_name = named("queueId"), named("queueOffset")
    transaction_name = named("transactionId")
    pack_size, pack_head = _INT.pack, _BINARY_HEAD.pack

    def frame(
        opaque: int, msg_id: str, queue_id: int, queue_offset: int, transaction_id: str | None
    ) -> bytes:
        place, queue, offset = msg_id.encode(), b"%d" % queue_id, b"%d" % queue_offset
        ext = b"%b%b%b%b%b%b%b%b%b" % (
            before, pack_size(len(place)), place,
            queue_id_name, pack_size(len(queue)), queue,
            offset_name, pack_size(len(offset)), offset,
        )  # fmt: skip
        if transaction_id is not None:
            unique = transaction_id.encode()
            ext = b"%b%b%b%b" % (ext, transaction_name, pack_size(len(unique)), unique)
        size = len(ext)
        head = pack_head(
            4 + _FIXED_SIZE + size, _BINARY_MARK | _FIXED_SIZE + size, 0, _LANGUAGE,
            PROTOCOL_VERSION, opaque, FLAG_RESPONSE, 0, size,
        )  # fmt: skip
        return head + ext

    return frame


def _json_frames(spoken: dict[str, str]) -> Frame:
    before = b'{"code":0,"extFields":' + _dumps(spoken)[:-1]

    def frame(
        opaque: int, msg_id: str, queue_id: int, queue_offset: int, transaction_id: str | None
    ) -> bytes:
        header = b'%b,"msgId":"%b","queueId":"%d","queueOffset":"%d"%b' % (
            before, msg_id.encode(), queue_id, queue_offset,
            b"" if transaction_id is None else b',"transactionId":' + _dumps(transaction_id),
        ) + _JSON_END % opaque  # fmt: skip
        return _LENGTHS.pack(4 + len(header), len(header)) + header

    return frame


def _msgpack_frames(spoken: dict[str, str | bool]) -> Frame:
    before = b"".join([b"\x97", _pack(0), _pack(_LANGUAGE), _pack(PROTOCOL_VERSION)])
    flag_and_remark = _pack(FLAG_RESPONSE) + _pack(None)
    fields = b"".join([_pack(part) for pair in spoken.items() for part in pair]) + _pack("msgId")
    five = flag_and_remark + _map_head(len(spoken) + 3) + fields
    six = flag_and_remark + _map_head(len(spoken) + 4) + fields
    queue_id_name, offset_name = _pack("queueId"), _pack("queueOffset")
    transaction_name = _pack("transactionId")

    def frame(
        opaque: int, msg_id: str, queue_id: int, queue_offset: int, transaction_id: str | None
    ) -> bytes:
        header = b"".join(
            (
                before, _pack(opaque), five if transaction_id is None else six, _pack(msg_id),
                queue_id_name, _pack(queue_id), offset_name, _pack(queue_offset),
            )
        )  # fmt: skip
        if transaction_id is not None:
            header += transaction_name + _pack(transaction_id)
        return _LENGTHS.pack(4 + len(header), _MSGPACK_MARK | len(header)) + header

    return frame


def _map_head(size: int) -> bytes:
    assert size < 16
    return bytes((0x80 | size,))
