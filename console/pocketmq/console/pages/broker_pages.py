"""The pages of brokers, of their settings, and of name servers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from msgspec import Struct
from starlette.routing import BaseRoute

from pocketmq.console.api.brokers.bodies import SettingsChange, SettingsChanged, SettingsQuery
from pocketmq.console.api.brokers.broker_calls import BrokerCalls
from pocketmq.console.api.callers import Clients
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.pages import Pages
from pocketmq.console.pages.rendering import path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.operations import Call
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.settings import properties_from_text, properties_text


class Preview(Struct):
    """What the page of a change shows.

    Attributes:
        text: the changes, as a form holds them.
        preview: what these would do; None without any.
        problem: why they cannot be made; empty if they can.
    """

    text: str = ""
    preview: SettingsChanged | None = None
    problem: str = ""


class BrokerPages:
    """Makes the paths of these pages.

    Args:
        brokers: carries the operations out.
    """

    def __init__(self, brokers: BrokerCalls) -> None:
        self._brokers = brokers

    def __call__(self, pages: Pages) -> Iterable[BaseRoute]:
        """Returns the paths."""
        brokers = self._brokers
        settings = "/brokers/{broker}/settings"
        change = Form(
            path=f"{settings}/change",
            template="broker_change.html",
            operation=brokers.change,
            read=_change,
            done=_changed,
            show=self._preview,
        )
        return [
            pages.page("/brokers/{broker}", "broker.html", brokers.one),
            pages.page(settings, "broker_settings.html", brokers.settings, SettingsQuery),
            pages.page("/name-servers", "name_servers.html", brokers.name_servers),
            *pages.forms.routes(change),
        ]

    async def _preview(self, clients: Clients, call: Call) -> Preview:
        """Tells what the typed changes would do."""
        typed = call.query
        assert isinstance(typed, Typed)
        if typed.text("changes") is None:
            return Preview()
        try:
            wanted = _change(typed, call.path)
            wanted.preview, wanted.version = True, None
            found = await self._brokers.change(clients, replace(call, query=None, body=wanted))
        except UsageError as e:
            return Preview(problem=str(e))
        except ProblemError as e:
            if e.problem.status != 409:
                raise
            return Preview(problem=str(e))
        return Preview(text=properties_text(wanted.changes), preview=found)


def _change(typed: Typed, _: Names) -> SettingsChange:
    changes = properties_from_text(typed.lines("changes"))
    if not changes:
        raise UsageError("no setting is to be changed: write lines such as fileReservedTime=48")
    return SettingsChange(changes=changes, version=typed.text("version"))


def _changed(done: Any, names: Names) -> Done:
    assert isinstance(done, SettingsChanged)
    text = ", ".join(f"{each.key}={each.after}" for each in done.changes)
    path = f"/brokers/{path_text(names['broker'])}/settings"
    return Done(path, Notice(f"{done.address} has changed its settings: {text}."))
