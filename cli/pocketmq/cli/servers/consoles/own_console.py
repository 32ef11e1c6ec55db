"""A console in the process of other servers: of `pocketmq up`, of a broker or of a name server.

Nothing of the console is imported before it is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pocketmq.auth.exposure import check_exposure
from pocketmq.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pocketmq.console.decoding.schema_decoder import SchemaOptions
    from pocketmq.console.login.settings import LoginOptions
    from pocketmq.console.server import ConsoleOptions, ConsoleServer
    from pocketmq.transport.tls.settings import ClientTls

REGISTRY_VARIABLE = "POCKETMQ_SCHEMA_REGISTRY"
"""The address of the schema registry; the name is that of `pocketmq.schemas`."""

EXTRA = frozenset({"starlette", "uvicorn", "anyio", "h11", "jinja2", "markupsafe"})
"""The packages that the extra `console` installs."""


class ConsoleWanted(NamedTuple):
    """The console that a server is to have.

    Attributes:
        port: 0 lets the system choose.
        host: the address to listen on.
        read_only: whether requests that would change something are refused.
        no_bodies: whether the bodies of messages stay hidden.
        path: before all links, for a proxy that takes it away.
        forwarded_prefix: whether the proxy says the path in the header X-Forwarded-Prefix.
        origin: where browsers see the console through a proxy.
        needed_by: what asks for the console, for errors.
        port_remedy: how another port is chosen when this one is in use.
        metrics_port, metrics_host: where Prometheus scrapes it; None is for nowhere.
    """

    port: int
    host: str = "127.0.0.1"
    read_only: bool = False
    no_bodies: bool = False
    path: str = ""
    forwarded_prefix: bool = False
    origin: str = ""
    needed_by: str = "--console"
    port_remedy: str = "choose another --console PORT, or 0, and the system chooses a free one"
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"

    def check(self, *, is_guarded: bool, insecure: bool) -> None:
        """Refuses to show a cluster that asks nobody who he is to a network.

        Args:
            is_guarded: whether the cluster authenticates its clients.
            insecure: whether the cluster is open to everybody on purpose.

        Raises:
            ConfigError: the console would be open to everybody who reaches the machine.
        """
        check_exposure("the console", self.host, is_guarded=is_guarded, insecure=insecure)

    def options(self, tls: ClientTls | None) -> ConsoleOptions:
        """Returns the options of the server.

        Args:
            tls: how to speak TLS to the cluster; None: as the environment says.

        Raises:
            ConfigError: the extra `console` is not installed.
        """
        load_console(self.needed_by)
        from pocketmq.console.server import ConsoleOptions

        return ConsoleOptions(
            host=self.host,
            port=self.port,
            read_only=self.read_only,
            no_bodies=self.no_bodies,
            base=self.path,
            forwarded_prefix=self.forwarded_prefix,
            origin=self.origin,
            tls=tls,
            port_remedy=self.port_remedy,
            schemas=schemas_wanted(),
            metrics_port=self.metrics_port,
            metrics_host=self.metrics_host,
        )

    def server(
        self,
        namesrv: str,
        tls: ClientTls | None = None,
        login: LoginOptions | None = None,
        schemas: SchemaOptions | None = None,
    ) -> ConsoleServer:
        """Makes the server, which has not been started.

        Args:
            namesrv: the name servers.
            tls: how to speak TLS to the cluster; None: as the environment says.
            login: how people log in; None for users of the cluster.
            schemas: where the schemas of bodies are; None: as the environment says.

        Raises:
            ConfigError: the extra `console` is not installed, or an option does not fit.
        """
        options = self.options(tls)._replace(login=login)
        if schemas is not None:
            options = options._replace(schemas=schemas)
        from pocketmq.console.server import ConsoleServer

        return ConsoleServer(namesrv, options)


class ConsoleConfig(Protocol):
    """The settings of a server's file about its console."""

    @property
    def console_port(self) -> int: ...  # noqa: D102

    @property
    def console_host(self) -> str: ...  # noqa: D102

    @property
    def console_read_only(self) -> bool: ...  # noqa: D102

    @property
    def console_no_bodies(self) -> bool: ...  # noqa: D102

    @property
    def console_path(self) -> str: ...  # noqa: D102

    @property
    def console_forwarded_prefix(self) -> bool: ...  # noqa: D102

    @property
    def console_origin(self) -> str: ...  # noqa: D102

    @property
    def authentication_enabled(self) -> bool: ...  # noqa: D102

    @property
    def insecure(self) -> bool: ...  # noqa: D102


def wanted_by(config: ConsoleConfig) -> ConsoleWanted | None:
    """Returns the console that the settings of a server ask for; None for none.

    Raises:
        ConfigError: the console would be open to everybody who reaches the machine.
    """
    if not config.console_port:
        return None
    wanted = ConsoleWanted(
        config.console_port,
        config.console_host,
        read_only=config.console_read_only,
        no_bodies=config.console_no_bodies,
        path=config.console_path,
        forwarded_prefix=config.console_forwarded_prefix,
        origin=config.console_origin,
        needed_by="consolePort",
        port_remedy="choose another consolePort, or 0 for no console",
    )
    wanted.check(is_guarded=config.authentication_enabled, insecure=config.insecure)
    return wanted


def schemas_wanted(url: str = "", files: Sequence[str] = ()) -> SchemaOptions | None:
    """Returns where the schemas of bodies are; None for nowhere, and nothing of them is imported.

    Args:
        url: of the registry; by default that of the environment.
        files: ``TOPIC=FILE``.

    Raises:
        ConfigError: it cannot work.
        SchemaError: a file cannot be read.
    """
    if not url and not files and not os.environ.get(REGISTRY_VARIABLE):
        return None
    from pocketmq.console.decoding.schema_decoder import schema_options

    return schema_options(url, files)


def load_console(needed_by: str) -> None:
    """Imports the console.

    Args:
        needed_by: what asks for it, for the error.

    Raises:
        ConfigError: the extra `console` is not installed.
    """
    try:
        import pocketmq.console.server  # noqa: F401
    except ModuleNotFoundError as e:
        if e.name is None or e.name.partition(".")[0] not in EXTRA:
            raise
        raise ConfigError(
            f"{needed_by} needs {e.name}, which is not installed: pip install 'pocketmq[console]'"
        ) from e
