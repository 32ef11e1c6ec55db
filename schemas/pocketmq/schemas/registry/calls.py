"""Calls of the registry's HTTP API, one connection each."""

from __future__ import annotations

import base64
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import msgspec

from pocketmq.protocol.errors import ConfigError
from pocketmq.schemas.errors import (
    IncompatibleSchemaError,
    RegistryError,
    RegistryUnavailableError,
    SchemaError,
    SchemaMissingError,
)
from pocketmq.schemas.registry.settings import (
    TOKEN_VARIABLE,
    TRUST_VARIABLE,
    USER_VARIABLE,
    RegistrySettings,
)

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
ANSWER_SIZE_MAX = 8 * 1024 * 1024
"""Bytes of an answer; a schema of the largest size fits, escaped."""

MISSING_CODES = (40401, 40402, 40403)
INVALID_CODES = (42201, 42202)
_TEXT_LENGTH_MAX = 1000


class _Failure(msgspec.Struct):
    """What the registry says when it refuses."""

    error_code: int = 0
    message: str = ""


class RegistryCalls:
    """Asks a registry, and tells its refusals apart.

    Args:
        settings: where the registry is.

    Raises:
        ConfigError: the file of the authorities cannot be read.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        settings.check()
        parts = urlsplit(settings.url)
        assert parts.hostname is not None
        self._settings, self._host, self._port = settings, parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            try:
                self._tls = ssl.create_default_context(cafile=settings.trust_cert_path or None)
            except OSError as e:
                raise ConfigError(
                    f"the authorities of the schema registry ({settings.trust_cert_path}) cannot "
                    f"be read: {e}"
                ) from e
        self._headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Connection": "close"}
        if settings.user:
            credentials = base64.b64encode(settings.user.encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"
        elif settings.token:
            self._headers["Authorization"] = f"Bearer {settings.token}"

    def get(self, path: str) -> Any:
        """Returns the JSON of a GET; see `_call`."""
        return self._call("GET", path, None)

    def post(self, path: str, document: object) -> Any:
        """Returns the JSON that a POST is answered with; see `_call`."""
        return self._call("POST", path, msgspec.json.encode(document))

    def _call(self, method: str, path: str, body: bytes | None) -> Any:
        """Asks the registry.

        Raises:
            RegistryUnavailableError: there is no answer, or none that is one of a registry.
            RegistryError: the registry refuses; see its subclasses.
            SchemaError: the registry takes the schema for none.
        """
        status, answer = self._answer(method, path, body)
        if status == 200:
            try:
                return msgspec.json.decode(answer)
            except (ValueError, RecursionError) as e:
                raise RegistryUnavailableError(
                    f"{self._settings.url} answers no JSON, so that it is no schema registry: "
                    f"check the address"
                ) from e
        raise self._refusal(status, answer)

    def _answer(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        timeout_s = self._settings.timeout_s
        connection = (
            HTTPConnection(self._host, self._port, timeout=timeout_s)
            if self._tls is None
            else HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        )
        headers = self._headers if body is None else {**self._headers, "Content-Type": CONTENT_TYPE}
        try:
            connection.request(method, self._base + path, body, headers)
            response = connection.getresponse()
            answer = response.read(ANSWER_SIZE_MAX + 1)
        except ssl.SSLCertVerificationError as e:
            raise RegistryUnavailableError(
                f"the certificate of the schema registry {self._settings.url} is not trusted: "
                f"{e.verify_message}; name the file of its authority ({TRUST_VARIABLE})"
            ) from e
        except (OSError, HTTPException) as e:
            reason = str(e) or type(e).__name__
            raise RegistryUnavailableError(
                f"the schema registry {self._settings.url} does not answer: {reason}; check that "
                f"it runs, and its address"
            ) from e
        finally:
            connection.close()
        if len(answer) > ANSWER_SIZE_MAX:
            raise RegistryUnavailableError(
                f"the schema registry {self._settings.url} answers with more than "
                f"{ANSWER_SIZE_MAX} bytes"
            )
        return response.status, answer

    def _refusal(self, status: int, answer: bytes) -> Exception:
        try:
            failure = msgspec.json.decode(answer, type=_Failure)
        except (ValueError, RecursionError):
            failure = _Failure()
        code = failure.error_code or status
        said = failure.message[:_TEXT_LENGTH_MAX] or f"HTTP status {status}"
        url = self._settings.url
        if code in MISSING_CODES:
            return SchemaMissingError(f"the schema registry {url} says: {said} ({code})", code)
        if status == 409:
            return IncompatibleSchemaError(said, code)
        if code in INVALID_CODES:
            return SchemaError(f"the schema registry {url} refuses the schema: {said} ({code})")
        if status in (401, 403):
            return RegistryError(
                f"the schema registry {url} refuses the user: {said} ({code}); set {USER_VARIABLE} "
                f"or {TOKEN_VARIABLE}, or ask for the right",
                code,
            )
        if status >= 500 or status == 429:
            return RegistryUnavailableError(
                f"the schema registry {url} fails: {said} ({code})", code
            )
        if status == 404:
            return RegistryError(
                f"{url} has no such interface: {said}; check that it is the address of a schema "
                f"registry, with its path",
                code,
            )
        return RegistryError(f"the schema registry {url} refuses: {said} ({code})", code)
