"""The operations on brokers, their settings, and name servers."""

from __future__ import annotations

import asyncio

from pocketmq.client import Admin
from pocketmq.client.admin.results import BrokerRow
from pocketmq.console.api.brokers.bodies import (
    BrokerView,
    ChangedSetting,
    NameServer,
    NameServers,
    Origin,
    Setting,
    SettingsChange,
    SettingsChanged,
    SettingsQuery,
    SettingsView,
)
from pocketmq.console.api.brokers.broker_views import broker_view
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.bodies.brokers import SettingDetail
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import (
    NoPermissionError,
    PocketMQError,
    ResponseError,
    UsageError,
)


class BrokerCalls:
    """Shows brokers and name servers, and changes settings of brokers.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        one = f"{PREFIX}/brokers/{{broker}}"
        return [
            Operation(
                "GET", one, "getBroker",
                "A broker with figures, or a broker set with roles, in-sync set, epoch and lag.",
                serve(self.one), BrokerView,
            ),
            Operation(
                "GET", f"{one}/settings", "getBrokerSettings",
                "The settings of a broker, with defaults and where each value is from.",
                serve(self.settings), SettingsView, query=SettingsQuery,
            ),
            Operation(
                "PUT", f"{one}/settings", "changeBrokerSettings",
                "Change settings while a broker runs, all or none, or tell what that would do.",
                serve(self.change), SettingsChanged, body=SettingsChange,
            ),
            Operation(
                "GET", f"{PREFIX}/name-servers", "listNameServers",
                "The name servers, with the brokers that each of them knows.",
                serve(self.name_servers), NameServers,
            ),
        ]  # fmt: skip

    async def one(self, clients: Clients, call: Call) -> BrokerView:
        """Shows a broker."""
        name = call.path["broker"]
        return await broker_view(clients.admin, name, await _rows(clients.admin, name))

    async def settings(self, clients: Clients, call: Call) -> SettingsView:
        """Shows the settings of a broker."""
        query, name = call.query or SettingsQuery(), call.path["broker"]
        assert isinstance(query, SettingsQuery)
        address = await _address(clients.admin, name, query.address)
        details, version = await clients.admin.broker_settings(address)
        wanted = query.contains.lower()
        shown = [_setting(detail) for detail in details if wanted in detail.key.lower()]
        return SettingsView(
            broker=name,
            address=address,
            version=version,
            settings={each.key: each.value for each in details if each.value is not None},
            details=[each for each in shown if not query.changed or each.value != each.default],
        )

    async def change(self, clients: Clients, call: Call) -> SettingsChanged:
        """Changes settings of a broker."""
        wanted, name, admin = call.body, call.path["broker"], clients.admin
        assert isinstance(wanted, SettingsChange)
        if not wanted.preview:
            self._callers.check_writes()
        address = await _address(admin, name, wanted.address)
        try:
            details, version = await admin.broker_settings(address, wanted.changes)
            if wanted.version is not None and wanted.version != version:
                raise ProblemError(
                    409,
                    "The settings were changed meanwhile",
                    f"the settings of {name} are not those with which the change was made up",
                    "look at the settings again, and then change them",
                )
            if not wanted.preview:
                await admin.update_broker_config(address, wanted.changes)
                _, version = await admin.broker_settings(address)
        except NoPermissionError as e:
            raise _refusal(e, name) from e
        except ResponseError as e:
            if e.code == ResponseCode.SYSTEM_ERROR:  # a key or a value does not fit
                raise UsageError(str(e)) from e
            raise
        changes, is_checked = _changes(details, wanted.changes)
        return SettingsChanged(
            broker=name,
            address=address,
            is_done=not wanted.preview,
            is_checked=is_checked,
            version=version,
            changes=changes,
        )

    async def name_servers(self, clients: Clients, call: Call) -> NameServers:
        """Shows the name servers."""
        addresses = [part.strip() for part in self._callers.namesrv.split(";") if part.strip()]
        found = await asyncio.gather(*(_name_server(clients.admin, each) for each in addresses))
        known = {broker for server in found for broker in server.brokers}
        for server in found:
            if server.problem is None:
                server.missing = sorted(known - set(server.brokers))
        return NameServers(name_servers=found)


async def _rows(admin: Admin, name: str) -> list[BrokerRow]:
    """The registered brokers of a name.

    Raises:
        ProblemError: 404, there are none.
    """
    rows = [row for row in await admin.brokers() if row.broker_name == name]
    if not rows:
        raise not_found("broker", name, f"GET {PREFIX}/cluster")
    return rows


async def _address(admin: Admin, name: str, address: str | None) -> str:
    """The address of a broker's master, or of the member that is asked for.

    Raises:
        ProblemError: 404, there is no such broker, or no such member.
    """
    rows = await _rows(admin, name)
    for row in rows:
        if row.address == address or (address is None and not row.broker_id):
            return row.address
    if address is None:
        raise not_found("broker with a master", name, f"GET {PREFIX}/cluster")
    raise not_found("member", address, f"GET {PREFIX}/brokers/{name}")


def _setting(detail: SettingDetail) -> Setting:
    return Setting(
        key=detail.key,
        value=detail.value,
        default=detail.default,
        configured=detail.configured,
        origin=_origin(detail),
        is_live=detail.is_live,
    )


def _origin(detail: SettingDetail) -> Origin:
    if detail.is_live is None:
        return "unknown"
    if detail.value != detail.configured:
        return "run time"
    return "default" if detail.configured == detail.default else "configuration"


def _changes(
    details: list[SettingDetail], wanted: dict[str, str]
) -> tuple[list[ChangedSetting], bool]:
    """What changes do, and whether the broker has checked them.

    Raises:
        UsageError: there is no such setting.
    """
    known = {detail.key: detail for detail in details}
    if missing := sorted(wanted.keys() - known.keys()):
        raise UsageError(f"the broker has no setting {', '.join(missing)}")
    is_checked = all(detail.is_live is not None for detail in details)
    changes = []
    for key in sorted(wanted):
        detail = known[key]
        after = detail.wanted if is_checked else wanted[key]
        changes.append(
            ChangedSetting(
                key=key,
                before=detail.value,
                after=after,
                default=detail.default,
                origin=_origin(detail),
            )
        )
    return changes, is_checked


def _refusal(error: NoPermissionError, name: str) -> PocketMQError:
    """The problem for a refusal: of the caller, or of a setting that is read at the start."""
    if "black list" not in str(error):
        return error
    return ProblemError(
        409, "The setting cannot be changed now", str(error),
        f"change it in the configuration of {name}, and start the broker again",
    )  # fmt: skip


async def _name_server(admin: Admin, address: str) -> NameServer:
    server = NameServer(address=address)
    try:
        info = await admin.namesrv_cluster_info(address)
        server.release = await admin.namesrv_release(address)
    except NoPermissionError:
        raise
    except PocketMQError as e:
        server.problem = str(e)
        return server
    server.brokers = sorted(
        f"{name}:{broker_id}"
        for name, data in info.broker_addr_table.items()
        for broker_id in data.broker_addrs
    )
    try:
        server.settings = await admin.namesrv_config(address)
    except NoPermissionError:
        server.settings = None
    except PocketMQError as e:
        server.problem = str(e)
    return server
