"""The page that offers what was done in a console's session as a file for pytest."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from pocketmq.console.api.callers import Clients
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.pages import Pages
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.bodies import ResponseBody
from pocketmq.console.web.operations import Call
from pocketmq.testing.console.pytest_file import pytest_file
from pocketmq.testing.console.recording import STEPS_MAX, Recording
from pocketmq.testing.core import Core

FILE = "test_recorded.py"


class RecordingView(ResponseBody):
    """What the page shows.

    Attributes:
        steps: how many there are.
        is_cut: whether further ones were left out.
        text: the file.
        file: its name.
    """

    steps: int
    is_cut: bool
    text: str
    file: str = FILE
    steps_max: int = STEPS_MAX


class RecordingPages:
    """Makes the paths of the page, and of the file.

    Args:
        core: the cluster.
        recording: what was done.
    """

    def __init__(self, core: Core, recording: Recording) -> None:
        self._core, self._recording = core, recording

    def __call__(self, pages: Pages) -> Iterable[BaseRoute]:
        """Returns the paths."""
        form = Form(
            "/recording/anew", "recording.html", self.begin, _nothing, _done, show=self.shown
        )
        return [
            pages.page("/recording", "recording.html", self.shown),
            *pages.forms.routes(form),
            Route(f"/recording/{FILE}", pages.checked(self._file), methods=["GET"]),
        ]

    async def shown(self, clients: Clients, call: Call) -> RecordingView:
        """Shows what was recorded."""
        recording = self._recording
        return RecordingView(
            steps=len(recording.steps),
            is_cut=recording.is_cut,
            text=pytest_file(recording, self._core.settings),
        )

    async def begin(self, clients: Clients, call: Call) -> RecordingView:
        """Begins the recording anew."""
        self._recording.begin()
        return await self.shown(clients, call)

    async def _file(self, request: Request) -> Response:
        text = pytest_file(self._recording, self._core.settings)
        named = {"Content-Disposition": f'attachment; filename="{FILE}"'}
        return PlainTextResponse(text, headers=named)


def _nothing(typed: Typed, names: Names) -> None:
    """Reads nothing: there is nothing to choose."""


def _done(view: RecordingView, names: Names) -> Done:
    return Done("/recording", Notice("The recording begins anew."))
