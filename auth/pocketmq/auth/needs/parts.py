"""The parts of a table of needs: how the resources of a request are found in it.

A part reads one field of a request, or its body. Names are taken as the handlers take them, from
the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from pocketmq.auth.rights.policies import Action, Need, Resource, ResourceType
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ContentError, ResponseError, UsageError, response_error
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.names.names import RETRY_PREFIX

Texts = Mapping[str, str]
"""The fields of a request by name on the wire, as text."""

Actions = frozenset[Action]


class Facts(NamedTuple):
    """What a server knows of itself and of its messages.

    Attributes:
        clusters: the names of the clusters that a request about the whole server concerns.
        topic_at: the topic for which the message at a physical offset was sent; None if there is
            no message.
    """

    clusters: Callable[[], Collection[str]]
    topic_at: Callable[[int], str | None] = lambda _: None


class Part(Protocol):
    """Finds some of the needs of a request.

    Attributes:
        text: for the documentation.
        fields: the fields that alone decide about the needs; None if something else does, too.
    """

    @property
    def text(self) -> str: ...  # noqa: D102

    @property
    def fields(self) -> tuple[str, ...] | None: ...  # noqa: D102

    def needs(self, texts: Texts, body: bytes, facts: Facts) -> Iterable[Need]:
        """Yields the needs.

        Raises:
            ResponseError: the request does not say what it is about.
        """


def topic_need(name: str, actions: Actions, retry: Actions | None = None) -> Need:
    """The need for a topic; the retry topic of a group stands for the group.

    Args:
        name: of the topic.
        actions: of which one is needed.
        retry: the same for the group of a retry topic, if that differs.
    """
    if name.startswith(RETRY_PREFIX):
        return group_need(name[len(RETRY_PREFIX) :], retry or actions)
    return Need(Resource(ResourceType.TOPIC, name), actions)


def group_need(name: str, actions: Actions) -> Need:
    """The need for a consumer group."""
    return Need(Resource(ResourceType.GROUP, name), actions)


class NamedPart:
    """A topic or a group that a field names.

    Args:
        kind: what the field names.
        field: its name on the wire.
        actions: of which one is needed.
        retry: the same for the group of a retry topic, if that differs.
        otherwise: what is needed if the field is absent; None refuses the request.
        separator: stands between several names.
        exempt: names for which nothing is needed.
    """

    def __init__(
        self,
        kind: ResourceType,
        field: str,
        actions: Actions,
        *,
        retry: Actions | None = None,
        otherwise: Part | None = None,
        separator: str | None = None,
        exempt: Collection[str] = (),
    ) -> None:
        self._kind, self._field, self._actions = kind, field, actions
        self._retry, self._otherwise = retry, otherwise
        self._separator, self._exempt = separator, exempt
        self.fields: tuple[str, ...] | None = (field,)
        if otherwise is not None:
            self.fields = None if otherwise.fields is None else (field, *otherwise.fields)

    @property
    def text(self) -> str:
        """Such as ``Topic (topic) → Sub | Get``."""
        text = f"{self._kind.value} (`{self._field}`) → {_shown(self._actions)}"
        if self._retry is not None:
            text += f", of a retry topic Group → {_shown(self._retry)}"
        if self._exempt:
            text += f", none for {', '.join(self._exempt)}"
        if self._otherwise is not None:
            text += f", without the field {self._otherwise.text}"
        return text

    def needs(self, texts: Texts, body: bytes, facts: Facts) -> Iterator[Need]:
        """Yields the needs for the names."""
        text = texts.get(self._field)
        if not text:
            if self._otherwise is None:
                raise unclear(f"the request does not say its {self._field}")
            yield from self._otherwise.needs(texts, body, facts)
            return
        for name in (text,) if self._separator is None else text.split(self._separator):
            if name in self._exempt:
                continue
            if self._kind is ResourceType.TOPIC:
                yield topic_need(name, self._actions, self._retry)
            else:
                yield group_need(name, self._actions)


class ClusterPart:
    """The clusters of the server, whatever cluster the request names.

    Args:
        actions: of which one is needed, for each cluster.
    """

    fields = None

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    @property
    def text(self) -> str:
        """Such as ``Cluster → Get``."""
        return f"Cluster → {_shown(self._actions)}"

    def needs(self, _: Texts, __: bytes, facts: Facts) -> Iterator[Need]:
        """Yields the needs for the server's clusters."""
        for cluster in facts.clusters():
            yield cluster_need(cluster, self._actions)


def cluster_need(name: str, actions: Actions) -> Need:
    """The need for a cluster."""
    return Need(Resource(ResourceType.CLUSTER, name), actions)


class NamedClusterPart:
    """The cluster that a request of a broker is about.

    Args:
        field: its name on the wire.
        actions: of which one is needed.
    """

    def __init__(self, field: str, actions: Actions) -> None:
        self._field, self._actions = field, actions
        self.fields: tuple[str, ...] | None = (field,)

    @property
    def text(self) -> str:
        """Such as ``Cluster (clusterName) → Update``."""
        return f"Cluster (`{self._field}`) → {_shown(self._actions)}"

    def needs(self, texts: Texts, _: bytes, __: Facts) -> Iterator[Need]:
        """Yields the need for the named cluster."""
        name = texts.get(self._field)
        if not name:
            raise unclear(f"the request does not say its {self._field}")
        yield cluster_need(name, self._actions)


class StoredPart:
    """The topic of the stored message that a request is about, whatever topic the request names.

    Args:
        field: holds the physical offset of the message, or its offset message id.
        actions: of which one is needed.
        otherwise: what is needed if there is no such message.
        is_id: whether the field holds the id.
    """

    fields = None

    def __init__(
        self, field: str, actions: Actions, *, otherwise: Part | None = None, is_id: bool = False
    ) -> None:
        self._field, self._actions = field, actions
        self._otherwise, self._is_id = otherwise, is_id

    @property
    def text(self) -> str:
        """Such as ``Topic (of the message at offset) → Get``."""
        text = f"Topic (of the message `{self._field}`) → {_shown(self._actions)}"
        return text + (f", without it {self._otherwise.text}" if self._otherwise else "")

    def needs(self, texts: Texts, body: bytes, facts: Facts) -> Iterator[Need]:
        """Yields the need for the message's topic."""
        offset = self._offset(texts.get(self._field, ""))
        topic = None if offset is None else facts.topic_at(offset)
        if topic is not None:
            yield topic_need(topic, self._actions)
        elif self._otherwise is not None:
            yield from self._otherwise.needs(texts, body, facts)

    def _offset(self, text: str) -> int | None:
        """The physical offset; None for an id that is none, which the handler refuses."""
        if self._is_id:
            try:
                return parse_offset_msg_id(text).physical_offset
            except UsageError:
                return None
        if not (text.isascii() and text.isdecimal()):  # the handler might read it as a number
            raise unclear(f"the request's {self._field} is {text[:_SHOWN_MAX]!r}, not an offset")
        return int(text[:_DIGITS_MAX])


_DIGITS_MAX = 20
_SHOWN_MAX = 40


class BodyPart:
    """Topics and groups that the body of a request names.

    Args:
        text: for the documentation.
        read: yields the needs of a body; raises `ContentError` if it cannot be read.
    """

    fields = None

    def __init__(self, text: str, read: Callable[[bytes], Iterable[Need]]) -> None:
        self.text, self._read = text, read

    def needs(self, _: Texts, body: bytes, __: Facts) -> Iterable[Need]:
        """The needs of the body, each once."""
        try:
            return dict.fromkeys(self._read(bytes(body)))
        except ContentError as e:
            raise unclear(str(e)) from e


class NothingPart:
    """What every user may do who has proved who it is."""

    text = "none"
    fields: tuple[str, ...] | None = ()

    def needs(self, _: Texts, __: bytes, ___: Facts) -> Iterable[Need]:
        """No needs."""
        return ()


class SuperPart:
    """What only Super users may do, who are not asked for needs."""

    text = "Super users only"
    fields = None

    def needs(self, _: Texts, __: bytes, ___: Facts) -> Iterable[Need]:
        """Refuses everybody.

        Raises:
            ResponseError: always.
        """
        raise response_error(
            ResponseCode.NO_PERMISSION,
            "only Super users and the servers of the cluster may send this request",
        )


def unclear(reason: str) -> ResponseError:
    """Refuses a request of which nobody can tell what it is about, in RocketMQ's words."""
    return response_error(
        ResponseCode.NO_PERMISSION, f"parse authorization context error. {reason}"
    )


def _shown(actions: Actions) -> str:
    return " | ".join(sorted(action.value for action in actions))
