"""What a console exports to Prometheus; loaded only where metrics are exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.metrics.endpoint import ScrapeRequest, only_page
from pocketmq.runtime.metrics.exposition import (
    Exposition,
    Family,
    Kind,
    LabelSets,
    label_text,
    with_label,
)
from pocketmq.runtime.metrics.instruments import Histograms

LATENCY = Family(
    "pocketmq_console_request_latency_milliseconds", Kind.HISTOGRAM,
    "Time from a request to the beginning of its answer, by part, method and status",
    (5, 10, 50, 100, 500, 1000, 5000, 10_000),
)  # fmt: skip
UNDER_WAY = Family(
    "pocketmq_console_requests", Kind.GAUGE, "Requests whose answers have not ended, by part"
)
TAILS = Family("pocketmq_console_live_tails", Kind.GAUGE, "Live tails that go on")
BUILD = Family("pocketmq_console_build_info", Kind.GAUGE, "1, with the version as label")

API, PAGES = "api", "pages"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ANSWER = "none"
"""Stands for the status of a request that had no answer, as its client has gone."""


class ConsoleMetrics:
    """Measures the requests of an application, and writes the metrics for each scrape.

    Args:
        api_prefix: how the paths of the API begin.
        tails: returns how many live tails go on.
        clock: measures, and gives turns to others.
    """

    def __init__(self, api_prefix: str, tails: Callable[[], int], clock: Clock) -> None:
        self._api_prefix, self._tails, self._clock = api_prefix, tails, clock
        self._latencies: Histograms[tuple[str, str, str]] = Histograms(LATENCY)
        self._labels = LabelSets({}, "part", "method", "status")
        self._under_way = {API: 0, PAGES: 0}

    def measured(self, app: ASGIApp) -> ASGIApp:
        """Returns an application whose requests are measured."""

        async def measured_app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began_s, status = self._clock.machine.monotonic(), NO_ANSWER
            part = API if scope["path"].startswith(self._api_prefix) else PAGES
            method = scope["method"] if scope["method"] in _METHODS else "other"
            begun = False

            def note() -> None:
                latency_ms = (self._clock.machine.monotonic() - began_s) * 1000
                self._latencies[part, method, status].observe(latency_ms)

            async def noting_send(message: Message) -> None:
                nonlocal status, begun
                if message["type"] == "http.response.start" and not begun:
                    status, begun = str(message["status"]), True
                    note()
                await send(message)

            self._under_way[part] += 1
            try:
                await app(scope, receive, noting_send)
            finally:
                self._under_way[part] -= 1
                if not begun:
                    note()

        return measured_app

    async def page(self, request: ScrapeRequest) -> bytes | None:
        """Writes ``/metrics``; None for other paths."""
        return await only_page(request, self._clock, self._figures)

    def _figures(self, out: Exposition) -> Iterator[int]:
        out.begin(TAILS)
        out.sample(label_text({}), self._tails())
        out.begin(BUILD)
        out.sample(with_label(label_text({}), "version", VERSION), 1)
        out.begin(UNDER_WAY)
        for part, count in self._under_way.items():
            out.sample(with_label(label_text({}), "part", part), count)
        yield from self._latencies.write(out, lambda key: self._labels.text(*key))
        self._labels.end_scrape()
