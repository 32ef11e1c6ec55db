"""Admits callers of an API: programs on this machine, but no web page of another site.

A page of another site in a browser on this machine must not reach it: neither by the page's own
script (`Origin`), nor by a host name that points here (DNS rebinding: `Host`), nor by a form (only
JSON is taken, or forms with a token). A link that a person follows is no such page.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.requests import Request

from pocketmq.console.web.base_path import BasePath
from pocketmq.console.web.operations import Api
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import ConfigError

BODY_MAX = 8 * 1024 * 1024
"""Bytes of a request's body: a message of 4 MiB in base64 fits."""

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?", re.IGNORECASE)

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Gate:
    """Checks requests before any other work is done for them.

    Args:
        host: the address that the server listens on. Loopback admits callers of this machine, by
            its names. Any other address was chosen on purpose: it admits all callers, by any
            address or by a name without dots, as containers have; names of the internet have dots.
        api: what is behind the gate.
        origin: where browsers see the server through a proxy, such as ``https://mq.example.org``;
            empty for nowhere.
        base: the path before all links; None for none.

    Attributes:
        base: the same.
    """

    def __init__(self, host: str, api: Api, origin: str = "", base: BasePath | None = None) -> None:
        self.base = base or BasePath()
        self._is_local = is_loopback(host)
        self._host, self._api = host, api
        self._origin = origin.lower()
        self._outer_host = self._origin.partition("://")[2]

    def check(self, request: Request) -> None:
        """Admits or refuses a request.

        Raises:
            ProblemError: 403.
        """
        client = request.client
        if self._is_local and (client is None or not is_loopback(client.host)):
            where = "somewhere" if client is None else client.host
            raise self._refused(
                f"the request comes from {where}, and this {self._api.name} is for its own machine",
                self._api.when_remote,
            )
        named = request.headers.getlist("host")
        if len(named) != 1 or not self._is_known(named[0].lower()):
            raise self._refused(
                f"the request names the host {' and '.join(named) or 'nowhere'!r}",
                "ask by the address that was printed at the start, or as localhost",
            )
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "none")
        own = {f"http://{named[0]}", self._origin or f"http://{named[0]}"}
        is_own = site in _OWN_SITES or _is_link(request)
        if (origin is not None and origin not in own) or not is_own:
            raise self._refused(
                f"the request comes from a web page of {origin or 'another site'}",
                "ask from a program; pages of other sites may not control a cluster",
            )
        self.base.read(request)

    def _refused(self, detail: str, remedy: str) -> ProblemError:
        return ProblemError(403, f"The {self._api.name} is not for this caller", detail, remedy)

    def _is_known(self, host: str) -> bool:
        return (bool(host) and host == self._outer_host) or self._is_own(_without_port(host))

    def _is_own(self, name: str) -> bool:
        if name in LOOPBACK_NAMES or name.strip("[]") == self._host.lower():
            return True
        return not self._is_local and ("." not in name or _is_address(name))


_OWN_SITES = frozenset({"none", "same-origin"})


def _is_link(request: Request) -> bool:
    """Whether a person follows a link: nothing changes by it, and the other site sees nothing."""
    headers = request.headers
    return (
        request.method == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def is_loopback(host: str) -> bool:
    """Tells whether an address, or ``localhost``, is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_origin(text: str) -> str:
    """Returns where browsers see a server through a proxy, as they name it; empty for nowhere.

    Raises:
        ConfigError: the text is no origin.
    """
    origin = text.rstrip("/")
    if origin and not _ORIGIN.fullmatch(origin):
        raise ConfigError(
            f"the origin is {text!r}: it must be like https://mq.example.org, with a port unless "
            f"it is the usual one, and without a path"
        )
    return origin


async def body_of(request: Request) -> bytes:
    """Reads the body of a request, if it is not too large.

    Raises:
        ProblemError: 413, or 415 if it is not JSON.
    """
    parts, size = [], 0
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > BODY_MAX:
        raise _too_large(declared)
    async for part in request.stream():
        size += len(part)
        if size > BODY_MAX:
            raise _too_large(f"more than {BODY_MAX}")
        parts.append(part)
    if size and not _is_json(request.headers.getlist("content-type")):
        raise ProblemError(
            415,
            "The body is not JSON",
            "the request has a body that is not declared as application/json",
            "send the header Content-Type: application/json",
        )
    return b"".join(parts)


def _is_json(types: Iterable[str]) -> bool:
    return [kind.partition(";")[0].strip().lower() for kind in types] == ["application/json"]


def _too_large(size: str) -> ProblemError:
    return ProblemError(
        413,
        "The body is too large",
        f"the request has {size} bytes, allowed are {BODY_MAX}",
        "send it in parts",
    )


def _without_port(host: str) -> str:
    head, _, port = host.rpartition(":")
    return head.lower() if head and port.isdigit() else host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
