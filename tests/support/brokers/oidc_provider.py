"""A small OpenID Connect provider, which makes mistakes when a test wants them."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT_ID, CLIENT_SECRET = "console", "client-secret-9"


@dataclass
class Provider:
    """The provider.

    Attributes:
        issuer: its address.
        claims: of the person who logs in; a test may replace any, also ``nonce`` and ``iss``.
        named_issuer: what its metadata say; empty for the address.
        forged: whether tokens are signed with a key that it does not publish.
    """

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    named_issuer: str = ""
    forged: bool = False
    verified: int = 0
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "k"}))
    other: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "k"}))

    def app(self) -> Starlette:
        """What serves it."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/jwks", self._jwks),
            ]
        )

    async def _metadata(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.named_issuer or self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/jwks",
                "id_token_signing_alg_values_supported": ["RS256", "none"],
            }
        )

    async def _jwks(self, _: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = asked
        back = f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
        if "ask" not in self.claims:
            return RedirectResponse(back)
        return HTMLResponse(f'<a href="{back.replace("&", "&amp;")}">Log in as ann</a>')

    async def _token(self, request: Request) -> Response:
        form = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        asked = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        secret = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        assert challenge == asked["code_challenge"]
        assert request.headers["authorization"] == f"Basic {secret}"
        assert form["redirect_uri"] == asked["redirect_uri"]
        self.verified += 1
        now = int(time.time_ns() // 1_000_000_000)
        claims = {
            "iss": self.issuer, "sub": "ann-1", "aud": CLIENT_ID, "iat": now, "exp": now + 600,
            "nonce": asked["nonce"], **self.claims,
        }  # fmt: skip
        signed = jwt.encode(
            {"alg": "RS256", "kid": "k"}, claims, self.other if self.forged else self.key
        )
        return JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": signed})
