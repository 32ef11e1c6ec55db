"""Takes pictures of the console in a real browser, light and dark, on a real cluster."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

from pocketmq.client import Message, ReceivedMessage
from pocketmq.testing import Cluster, LocalCluster

WIDTH, HEIGHT = 1100, 640
SCHEMES = ("light", "dark")
START_MS = 1_893_456_000_000
"""When the pictures are taken: the times in them stay the same."""


class Picture(NamedTuple):
    """A picture: its file's name, and the page that it shows."""

    name: str
    path: str


PICTURES = (
    Picture("console-topics", "/topics"),
    Picture("console-messages", "/topics/Orders/messages?start=earliest"),
    Picture("console-dead-letters", "/groups/billing/dead-letters"),
    Picture("console-clock", "/clock"),
)


def names() -> Iterator[str]:
    """The names of all files."""
    for picture, scheme in itertools.product(PICTURES, SCHEMES):
        yield f"{picture.name}-{scheme}.png"


def pictures() -> dict[str, bytes]:
    """Names of the files, and their contents.

    Raises:
        RuntimeError: there is no chromium on PATH.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        raise RuntimeError("no chromium on PATH (Debian: apt-get install chromium)")
    with (
        _cluster() as url,
        sync_playwright() as playwright,
        tempfile.TemporaryDirectory() as folder,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            return dict(_taken(browser, url, Path(folder)))
        finally:
            browser.close()


def _taken(browser: Browser, url: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    for scheme in SCHEMES:
        context = browser.new_context(
            base_url=url,
            viewport={"width": WIDTH, "height": HEIGHT},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        page = context.new_page()
        for picture in PICTURES:
            page.goto(picture.path)
            file = folder / f"{picture.name}-{scheme}.png"
            page.screenshot(path=file)
            yield file.name, file.read_bytes()
        context.close()


@contextmanager
def _cluster() -> Iterator[str]:
    """Runs a cluster in which something has happened; the URL of its console."""
    with LocalCluster(
        brokers=2, topics={"Orders": 4, "Payments": 4}, groups=["billing", "stock"],
        clock="virtual", start_ms=START_MS,
    ) as cluster:  # fmt: skip
        _fill(cluster)
        yield cluster.console().rstrip("/")


def _fill(cluster: Cluster) -> None:
    with cluster.producer("shop") as producer:
        for number in range(40):
            order = {"order": 4700 + number, "price": "7.50" if number % 13 == 5 else 7.5}
            tag = "new" if number % 3 else "changed"
            producer.send(
                Message("Orders", json.dumps(order).encode(), tags=tag, keys=str(4700 + number))
            )
            cluster.clock.advance(1)
        for number in range(3):
            producer.send(Message("Payments", b'{"paid": true}', delay_ms=60_000 * (number + 1)))

    def bill(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            price = json.loads(message.body)["price"]
            if not isinstance(price, float):
                raise TypeError(f"the price is the text {price!r}")

    with cluster.push_consumer("billing", listener=bill, max_reconsume_times=0) as consumer:
        consumer.subscribe("Orders")
        cluster.drain("billing")
