"""How long the answers to requests take (`RemotingMetricsManager`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.metrics.exposition import Exposition, Family, Kind, LabelSets
from pocketmq.runtime.metrics.instruments import Histograms

RPC_LATENCY = Family(
    "rocketmq_rpc_latency_milliseconds", Kind.HISTOGRAM, "Time between requests and their answers",
    (1, 3, 5, 7, 10, 100, 1000, 2000, 3000),
)  # fmt: skip

SERIES_MAX = 500
"""Combinations of request, response and result that are told apart."""

_HOLDABLE = frozenset(
    int(code)
    for code in (
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.BULK_PULL,
        RequestCode.POP_MESSAGE,
        RequestCode.NOTIFICATION,
    )
)
"""Requests that are held, if they are not answered at once, until there is something to answer."""

UNKNOWN = -1
_UNKNOWN_NAME = "unknown"
_REQUESTS: dict[int, str] = {int(code): code.name.lower() for code in RequestCode}
_RESPONSES: dict[int, str] = {int(code): code.name.lower() for code in ResponseCode}


_Key = tuple[int, int, bool, str]
"""Request code, response code, whether it was held, and result."""


def _known(key: _Key) -> _Key:
    """Returns a key whose codes are known: clients may send any number."""
    request, response, is_held, result = key
    return (
        request if request in _REQUESTS else UNKNOWN,
        response if response in _RESPONSES else UNKNOWN,
        is_held,
        result,
    )


class RpcLatency:
    """The histogram of a server's answers; a `Meter`.

    Args:
        common: the labels of all series.
    """

    watched: frozenset[int] = frozenset()
    """Request codes of which `_watch` is told, too."""

    def __init__(self, common: Mapping[str, str]) -> None:
        self._histograms: Histograms[_Key] = Histograms(RPC_LATENCY, SERIES_MAX, _known)
        self._labels = LabelSets(
            dict(common) | {"protocol_type": "remoting"},
            "request_code", "response_code", "is_long_polling", "result",
        )  # fmt: skip

    def answered(
        self, request: Command, code: int, is_late: bool, result: str, latency_ms: float
    ) -> None:
        """Takes note of an answer, see `Meter`."""
        request_code = request.code
        key = (request_code, code, is_late and request_code in _HOLDABLE, result)
        self._histograms[key].observe(latency_ms)
        if request_code in self.watched:
            self._watch(request, code, latency_ms)

    def _watch(self, request: Command, code: int, latency_ms: float) -> None:
        """Takes note of an answer to a request of `watched`."""

    def write(self, out: Exposition) -> Iterator[int]:
        """Writes the histogram; yields the work."""
        yield from self._histograms.write(out, self._text)
        self._labels.end_scrape()

    def _text(self, key: _Key) -> str:
        request, response, is_held, result = key
        return self._labels.text(
            _REQUESTS.get(request, _UNKNOWN_NAME),
            _RESPONSES.get(response, _UNKNOWN_NAME),
            "true" if is_held else "false",
            result,
        )
