"""Asks an OpenID Connect provider who a person is: authorization code flow, PKCE, state, nonce."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.starlette_client import OAuth
from joserfc.errors import JoseError
from starlette.requests import Request
from starlette.responses import Response

from pocketmq.console.login.settings import LoginOptions
from pocketmq.console.web.problems import ProblemError

log = logging.getLogger("pocketmq.console")

LEEWAY_S = 30
"""Seconds by which the clock of the provider may differ."""

TIMEOUT_S = 10

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures of identity tokens: none without one, and none by a shared secret."""


class Provider:
    """The provider.

    Args:
        options: of the logins.
    """

    def __init__(self, options: LoginOptions) -> None:
        self._options = options
        self._client = OAuth().register(
            "console",
            client_id=options.client_id,
            client_secret=options.client_secret,
            server_metadata_url=f"{options.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": options.scope, "code_challenge_method": "S256", "timeout": TIMEOUT_S,
            },
        )  # fmt: skip

    async def send_there(self, request: Request, redirect_uri: str) -> Response:
        """Sends a browser to the provider; the scope's session gets what is needed afterwards.

        Raises:
            ProblemError: 502, the provider cannot be asked.
        """
        try:
            await self._load()
            answer: Response = await self._client.authorize_redirect(request, redirect_uri)
        except (httpx2.HTTPError, AuthlibBaseError, ValueError, RuntimeError) as e:
            raise self._unreachable(e) from e
        return answer

    async def claims_of(self, request: Request) -> dict[str, Any]:
        """Returns what the provider says of the person who comes back.

        Raises:
            ProblemError: 403, the login is not the one that was begun here, or the provider's
                token does not hold; 502, the provider cannot be asked.
        """
        try:
            await self._load()
            token = await self._client.authorize_access_token(request, leeway=LEEWAY_S)
        except httpx2.HTTPError as e:
            raise self._unreachable(e) from e
        except (AuthlibBaseError, JoseError, ValueError, RuntimeError) as e:
            raise _refused(e) from e
        claims = token.get("userinfo")
        if not claims or not claims.get("sub"):
            raise _refused(ValueError("the provider has sent no identity token"))
        return dict(claims)

    async def _load(self) -> None:
        """Learns the provider's addresses and keys.

        Raises:
            ValueError: it is another issuer.
        """
        metadata = await self._client.load_server_metadata()
        if metadata.get("issuer") != self._options.issuer:
            raise ValueError(f"the issuer there is {metadata.get('issuer')!r}")
        offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        metadata["id_token_signing_alg_values_supported"] = [
            name for name in offered if name in ALGORITHMS
        ] or ["RS256"]

    def _unreachable(self, error: Exception) -> ProblemError:
        log.warning("the provider %s cannot be asked: %r", self._options.issuer, error)
        return ProblemError(
            502, "The login is not possible now",
            f"the provider {self._options.issuer} cannot be asked: {type(error).__name__}",
            "try again in a moment; the console has logged the reason",
        )  # fmt: skip


def _refused(error: Exception) -> ProblemError:
    log.warning("a login was refused: %r", error)
    return ProblemError(
        403, "The login was refused",
        f"what the provider or the browser has sent does not hold: {type(error).__name__}",
        "begin the login again at /login; the console has logged the reason",
    )  # fmt: skip
