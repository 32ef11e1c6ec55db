"""Any command, header, message: what the property tests draw from."""

from __future__ import annotations

from hypothesis import strategies as st

from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.messages.batch import BatchEntry
from pocketmq.protocol.messages.properties import NAME_END, VALUE_END
from pocketmq.protocol.requests.sending import SendMessageRequest, SendMessageV2Request
from pocketmq.protocol.wire.command import Codec, Command

INT16 = st.integers(-0x7FFF, 0x7FFF)
INT32 = st.integers(-0x8000_0000, 0x7FFF_FFFF)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(max_size=40)
FULL_TEXT = st.text(min_size=1, max_size=40)
BODIES = st.binary(max_size=300)

PLAIN_TEXT = st.text(
    st.characters(exclude_characters=NAME_END + VALUE_END, exclude_categories=["Cs"]),
    min_size=1,
    max_size=30,
)
PROPERTIES = st.dictionaries(PLAIN_TEXT, PLAIN_TEXT, max_size=6)

SEND_FIELDS = {
    "producer_group": FULL_TEXT,
    "topic": FULL_TEXT,
    "default_topic": TEXT,
    "default_topic_queue_nums": INT32,
    "queue_id": INT32,
    "sys_flag": INT32,
    "born_timestamp": INT64,
    "flag": INT32,
    "properties": st.none() | FULL_TEXT,
    "reconsume_times": st.none() | INT32,
    "unit_mode": st.none() | st.booleans(),
    "batch": st.none() | st.booleans(),
    "max_reconsume_times": st.none() | INT32,
}
HEADERS = st.builds(SendMessageRequest, **SEND_FIELDS) | st.builds(
    SendMessageV2Request, **SEND_FIELDS, broker_name=st.none() | FULL_TEXT
)

CODECS = st.sampled_from(Codec)


def commands(codec: Codec | None = None) -> st.SearchStrategy[Command]:
    """Commands as they are about to be sent."""
    return st.builds(
        Command,
        code=INT16,
        opaque=INT32,
        flag=INT32,
        body=BODIES,
        remark=st.none() | FULL_TEXT,
        language=st.sampled_from(LanguageCode).map(int),
        version=INT16,
        codec=CODECS if codec is None else st.just(codec),
        header=st.none() | HEADERS,
        extra=st.none() | st.dictionaries(FULL_TEXT.map("x-{}".format), FULL_TEXT, max_size=4),
    )


BATCH_ENTRIES = st.lists(
    st.builds(BatchEntry, INT32, BODIES, st.binary(max_size=60)), min_size=1, max_size=5
)


def essence(command: Command) -> tuple[object, ...]:
    """All that must survive a journey."""
    return (
        command.code,
        command.opaque,
        command.flag,
        command.body,
        command.remark,
        command.language,
        command.version,
        command.codec,
    )
