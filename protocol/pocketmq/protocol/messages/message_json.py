"""Messages as JSON, the form in which pipes and files carry them (docs/pipes.md).

All fields of a message are written. Read back are those that a sender can decide: body, keys, tags,
properties, flag, the queue, and the id if the reader asks for it. The other fields may be left out.
"""

from __future__ import annotations

import base64
import binascii
import difflib
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, ReceivedMessage

NOT_SENT_AGAIN = frozenset(
    {
        props.WAIT, props.UNIQ_KEY, props.CLUSTER, props.MSG_REGION, props.TRACE_ON,
        props.REAL_TOPIC, props.REAL_QUEUE_ID, props.RETRY_TOPIC, props.ORIGIN_MESSAGE_ID,
        props.RECONSUME_TIME, props.MAX_RECONSUME_TIMES, props.TRANSACTION_PREPARED,
        props.PRODUCER_GROUP, props.TRANSACTION_ID, props.TRANSACTION_CHECK_TIMES,
        props.CHECK_IMMUNITY_TIME_IN_SECONDS, props.MIN_OFFSET, props.MAX_OFFSET,
        props.TIMER_OUT_MS, props.TIMER_ENQUEUE_MS, props.TIMER_DEQUEUE_MS, props.TIMER_DELETE_KEY,
        props.BORN_TIMESTAMP, props.TRACE_CONTEXT, props.POP_CK, props.CORRELATION_ID,
        props.REPLY_TO_CLIENT, props.TTL, props.ARRIVE_TIME, props.PUSH_REPLY_TIME,
        props.MESSAGE_TYPE, "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "EXTEND_UNIQ_INFO",
        "CONSUME_START_TIME", "INNER_NUM", "INNER_BASE", "DUP_INFO", "TRAN_PREPARED_QUEUE_OFFSET",
        "POP_CK_OFFSET", props.FIRST_POP_TIME, props.ORIGIN_GROUP, "PROPERTY_FORWARD_QUEUE_ID",
        "REDIRECT",
        "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "__BORNHOST", "TIMER_ROLL_TIMES",
        "TIMER_DELAY_LEVEL", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__CRC32#",
    }
)  # fmt: skip
"""Properties that brokers and clients write for one life of a message (`MessageConst`): a copy of
the message gets its own. Some would even change what a broker does with it."""

Flag = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]

_WAITED = frozenset({props.DELAY, *props.TIMER_PROPERTIES})


class MessageDocument(
    msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True, gc=False
):
    """The JSON object of a message.

    Attributes:
        body, body_base64: the content, one of the two: as text, or encoded where it is no UTF-8.
        keys: business keys.
        tags: its tag.
        properties: all others; `NOT_SENT_AGAIN` are shown, but not sent.
        flag: a number of the application's own.
        broker, queue: which queue.
        msg_id: the id that the sending client gave.
        topic, offset, born_timestamp, store_timestamp: of the message that was read.
        offset_msg_id, physical_offset, born_host, store_host, reconsume_times, sys_flag, size:
            what `pocketmq message get` shows of a message besides.
    """

    body: str | None = None
    body_base64: str | None = None
    keys: list[str] = msgspec.field(default_factory=list)
    tags: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    flag: Flag = 0
    topic: str | None = None
    broker: str | None = None
    queue: Annotated[int, msgspec.Meta(ge=0)] | None = None
    offset: int | None = None
    msg_id: str | None = None
    born_timestamp: int | None = None
    store_timestamp: int | None = None
    offset_msg_id: str | None = None
    physical_offset: int | None = None
    born_host: str | None = None
    store_host: str | None = None
    reconsume_times: int | None = None
    sys_flag: int | None = None
    size: int | None = None

    @property
    def content(self) -> bytes:
        """Returns the body's bytes.

        Raises:
            UsageError: there is no body, or not exactly one.
        """
        if (self.body is None) == (self.body_base64 is None):
            raise UsageError("give the body as 'body' (text) or as 'bodyBase64', one of the two")
        try:
            if self.body is not None:
                content = self.body.encode()
            else:
                content = base64.b64decode(self.body_base64 or "", validate=True)
        except UnicodeEncodeError as e:
            raise UsageError(f"the body is no Unicode text, give bodyBase64: {e}") from e
        except binascii.Error as e:
            raise UsageError(f"bodyBase64 is no base64: {e}") from e
        if not content:
            raise UsageError("the body is empty, which brokers refuse: give it at least one byte")
        return content

    def message(self, topic: str, *, keep_id: bool = False) -> Message:
        """Makes the message to send.

        Args:
            topic: where it goes; its own is not looked at.
            keep_id: whether it keeps its client's id; otherwise it gets a new one.

        Raises:
            UsageError: it cannot be sent as it is written.
        """
        given = self.properties
        left_out = NOT_SENT_AGAIN
        if props.REAL_TOPIC in given or props.TIMER_OUT_MS in given:
            left_out |= _WAITED  # it has waited already
        message = Message(
            topic,
            self.content,
            tags=self.tags if self.store_timestamp is None else None,
            keys=self.keys,
            properties={k: v for k, v in given.items() if k not in left_out},
            flag=self.flag,
        )
        if self.tags and self.store_timestamp is not None:
            message.properties[props.TAGS] = self.tags  # a copy keeps the tag that a broker took
        self._check_doubles(message)
        msg_id = self.msg_id or given.get(props.UNIQ_KEY)
        if keep_id and msg_id:
            message.properties[props.UNIQ_KEY] = msg_id
        return message

    def _check_doubles(self, message: Message) -> None:
        """Refuses a key or tag that stands in the properties as well with another value."""
        raw_keys, raw_tags = self.properties.get(props.KEYS), self.properties.get(props.TAGS)
        if raw_keys is not None:
            if self.keys and raw_keys.split() != self.keys:
                raise UsageError(
                    f"keys are {self.keys}, and the property KEYS is {raw_keys!r}: leave one out"
                )
            message.properties[props.KEYS] = raw_keys
        if raw_tags is not None and self.tags not in (None, raw_tags):
            raise UsageError(
                f"tags is {self.tags!r}, and the property TAGS is {raw_tags!r}: leave one out"
            )


def message_document(message: ReceivedMessage) -> dict[str, Any]:
    """Makes the document of a stored message, ready for a JSON encoder.

    Keys and tags stand in fields of their own, and among the properties only where they are no
    list of words.
    """
    properties = dict(message.properties)
    keys = list(message.keys)
    if properties.get(props.KEYS) == " ".join(keys):
        del properties[props.KEYS]
    document = {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "msgId": message.msg_id,
        "keys": keys,
        "tags": properties.pop(props.TAGS, None),
        "properties": properties,
        "flag": message.flag,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
    }
    return document | body_fields(message.body)


def body_fields(body: bytes) -> dict[str, str]:
    """Returns the field that holds a body: ``body`` if it is UTF-8, else ``bodyBase64``."""
    try:
        return {"body": bytes(body).decode()}
    except UnicodeDecodeError:
        return {"bodyBase64": base64.b64encode(body).decode()}


_LINE_ENDS = tuple((mark.encode(), b"\\u%04x" % ord(mark)) for mark in "\x85\u2028\u2029")
"""What JSON allows within a string and some readers take for the end of a line."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MessageDocument)


def message_line(message: ReceivedMessage) -> bytes:
    """Encodes a stored message as one line of JSON, whatever its readers take for a line's end."""
    line = _encoder.encode(message_document(message))
    for mark, escape in _LINE_ENDS:
        if mark in line:
            line = line.replace(mark, escape)
    return line


def document_of_line(line: bytes) -> MessageDocument:
    """Reads one line of JSON.

    Raises:
        UsageError: it is none, or no message; says what is wrong.
    """
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as e:
        raise UsageError(_reason(str(e))) from e
    except msgspec.DecodeError as e:
        raise UsageError(f"this is no JSON: {e}") from e


def _reason(text: str) -> str:
    """Words a validation error of msgspec, with the field that was probably meant."""
    name = text.partition("contains unknown field `")[2].partition("`")[0]
    if not name:
        return text.replace("`", "")
    return f"unknown field {name!r}; {nearest(name, MessageDocument.__struct_encode_fields__)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Words a hint for an unknown name: the known name that is most like it."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if near:
        return f"did you mean {by_lower[near[0]]!r}?"
    return f"there are {', '.join(by_lower.values())}"
