"""SSL contexts of servers and clients, and clear words for what goes wrong with them."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from pocketmq.protocol.errors import ConfigError
from pocketmq.transport.tls.settings import ClientAuth, ClientTls, ServerTls

_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}


def server_context(settings: ServerTls, alpn: Sequence[str] = ()) -> ssl.SSLContext:
    """Makes a server's context: TLS 1.2 and newer.

    Args:
        settings: name the files.
        alpn: protocols of the application that it offers.

    Raises:
        ConfigError: a file cannot be read or does not fit; the text names the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_own(context, settings.cert_path, settings.key_path, settings.key_password)
    context.verify_mode = _VERIFY[settings.client_auth]
    if alpn:
        context.set_alpn_protocols(alpn)
    if settings.client_auth is not ClientAuth.NONE:
        _load_trusted(context, settings.trust_cert_path)
    if settings.ciphers:
        try:
            context.set_ciphers(settings.ciphers.replace(",", ":"))
        except ssl.SSLError:
            raise ConfigError(
                f"tlsCiphers is {settings.ciphers!r}: OpenSSL knows none of these cipher suites"
            ) from None
    return context


def client_context(settings: ClientTls) -> ssl.SSLContext:
    """Makes a client's context: TLS 1.2 and newer.

    Raises:
        ConfigError: a file cannot be read or does not fit; the text names the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.trust_cert_path:
        _load_trusted(context, settings.trust_cert_path)
    elif settings.trust_certs:
        try:
            context.load_verify_locations(cadata=settings.trust_certs)
        except (ssl.SSLError, ValueError):
            raise ConfigError("TLS: the trusted certificates are no PEM") from None
    else:
        context.load_default_certs()
    if settings.cert_path or settings.key_path:
        key_path = settings.key_path or settings.cert_path
        _load_own(context, settings.cert_path, key_path, settings.key_password)
    return context


def _load_own(context: ssl.SSLContext, cert_path: str, key_path: str, password: str) -> None:
    cert_path, key_path = _readable(cert_path), _readable(key_path)
    try:
        # Without a function OpenSSL would ask for the password on the terminal.
        context.load_cert_chain(cert_path, key_path, lambda: password)
    except (ssl.SSLError, ValueError) as e:
        reason = getattr(e, "reason", None) or str(e)
        if reason == "KEY_VALUES_MISMATCH":
            text = f"{key_path} is not the key of the certificate {cert_path}"
        else:
            text = (
                f"{cert_path} and {key_path} are no certificate and key as PEM, or the key's "
                f"password is wrong ({reason})"
            )
        raise ConfigError(f"TLS: {text}") from None


def _load_trusted(context: ssl.SSLContext, path: str) -> None:
    path = _readable(path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as e:
        raise ConfigError(f"TLS: {path} has no certificates as PEM ({e.reason})") from None


def _readable(path: str) -> str:
    """The path, with the home directory put in."""
    expanded = Path(path).expanduser()
    try:
        with expanded.open("rb"):
            return str(expanded)
    except OSError as e:
        raise ConfigError(f"TLS: {path or 'a file'} cannot be read: {e.strerror}") from None


def handshake_failure(error: BaseException) -> str | None:
    """Why a handshake failed, in words that name the remedy; None if it is no matter of TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFICATION.get(
            error.verify_code,
            f"its certificate is not accepted: {error.verify_message}",
        )
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or str(error)
        return _REASONS.get(reason, f"TLS failed: {reason}")
    return None


_NOT_TLS = "it does not speak TLS there: leave TLS out, or turn it on in the server"
_WANTS_CERTIFICATE = (
    "it wants a certificate of the client: set the client's certificate and key (tls_cert, tls_key)"
)
_NOT_TRUSTED = "it does not accept our certificate: its authority is not trusted over there"
_REASONS = {
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _WANTS_CERTIFICATE,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "both sides have no version or cipher suite of TLS in common, "
    "or it wants a certificate of the client",
    "TLSV1_ALERT_UNKNOWN_CA": _NOT_TRUSTED,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, which "
    "tlsServerNeedClientAuth asks for",
}
"""By OpenSSL's name of the reason."""

_UNKNOWN_AUTHORITY = (
    "its certificate is of an authority that is not trusted: name the authority's file as "
    "trust certificate"
)
_VERIFICATION = {
    9: "its certificate is not valid yet: compare the clocks of both machines",
    10: "its certificate has expired: renew it on the server",
    18: _UNKNOWN_AUTHORITY,
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    62: "its certificate is not for this host name: dial a name that it has, or renew it with "
    "this one",
    64: "its certificate is not for this address: dial a name that it has, or renew it with this "
    "address",
}
"""By OpenSSL's code (X509_V_ERR)."""
