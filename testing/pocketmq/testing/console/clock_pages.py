"""The page that shows a test cluster's time and sets it forward."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import field
from starlette.routing import BaseRoute

from pocketmq.console.api.callers import Clients
from pocketmq.console.api.reach import note_writing
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.pages import Pages
from pocketmq.console.pages.rendering import duration_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.bodies import ResponseBody
from pocketmq.console.web.operations import Call
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.text import counted
from pocketmq.testing.control.clock_calls import ClockCalls
from pocketmq.testing.control.jumps import Jump
from pocketmq.testing.control.models import AdvanceRequest, ClockInfo

JUMPS_MAX = 20
"""Jumps that the page shows, the newest first."""

NEXT = "next"
"""In place of a length: to the next moment at which something is due."""

STEPS_S = (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 6 * 3600, 12 * 3600, 86_400,
    2 * 86_400, 3 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400,
)  # fmt: skip
"""The steps of the slider, in seconds: to a month, which retention and timers need at most."""

UNITS_S = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}


class ClockView(ResponseBody):
    """What the page shows.

    Attributes:
        clock: the time.
        jumps: made on this page, the newest first.
        steps: the names of the slider's steps.
    """

    clock: ClockInfo
    jumps: list[Jump] = field(default_factory=list)
    steps: list[str] = field(
        default_factory=lambda: [duration_text(seconds * 1000) for seconds in STEPS_S]
    )


class ClockPages:
    """Makes the paths of the page.

    Args:
        clock: reads and advances the time.
    """

    def __init__(self, clock: ClockCalls) -> None:
        self._clock = clock
        self._jumps: deque[Jump] = deque(maxlen=JUMPS_MAX)

    def __call__(self, pages: Pages) -> Iterable[BaseRoute]:
        """Returns the paths."""
        form = Form("/clock/jump", "clock.html", self.jump, _read, _done, show=self.shown)
        return [pages.page("/clock", "clock.html", self.shown), *pages.forms.routes(form)]

    async def shown(self, clients: Clients, call: Call) -> ClockView:
        """Shows the time."""
        return ClockView(clock=self._clock.now(), jumps=list(self._jumps))

    async def jump(self, clients: Clients, call: Call) -> Jump:
        """Sets the clock forward."""
        note_writing()
        is_next = call.body is None
        done = await (self._clock.to_next(call) if is_next else self._clock.jump(call))
        self._jumps.appendleft(done)
        return done


def _read(typed: Typed, names: Names) -> AdvanceRequest | None:
    """Reads how far the clock goes; None: to what is due next."""
    if typed.text("jump") == NEXT:
        return None
    if step := typed.text("step"):
        if not step.isdecimal() or int(step) >= len(STEPS_S):
            raise UsageError(f"the slider has the steps 0 to {len(STEPS_S) - 1}, not {step!r:.20}")
        return AdvanceRequest(seconds=STEPS_S[int(step)])
    text = typed.text("jump") or typed.text("length")
    unit_s = UNITS_S.get(typed["unit"], 1) if not typed.text("jump") else 1
    try:
        return AdvanceRequest(seconds=float(text or "") * unit_s)
    except ValueError:
        raise UsageError(f"the length is {text or ''!r}: write a number, such as 1.5") from None


def _done(jump: Jump, names: Names) -> Done:
    came = ", ".join(f"{each.topic} +{each.messages}" for each in jump.came) or "nothing"
    waiting = counted(jump.clock.waiting, "message")
    return Done(
        "/clock",
        Notice(
            f"The clock went on by {duration_text(jump.jumped_ms)}: {came} came, {waiting} still "
            f"waiting"
        ),
    )
