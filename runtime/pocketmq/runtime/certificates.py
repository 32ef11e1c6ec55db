"""Makes a certificate authority and certificates of servers, for clusters that bring their own."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from pocketmq.runtime.clock import Clock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import CertificateBuilder, GeneralName, KeyUsage, Name

CA_DAYS = 3650
SERVER_DAYS = 397
"""The longest life that common clients accept of a server's certificate."""

NAME_LENGTH_MAX = 64
"""X.520's bound of a common name."""

_PEM_BEGIN, _PEM_END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"

_VERSION_TAG, _SHORT_TIME_TAG = 0xA0, 0x17

_CLOCK_SKEW = timedelta(minutes=5)


class Issued(NamedTuple):
    """A certificate and its private key, both as PEM; the repr leaves the key out.

    Attributes:
        certificate: the certificate.
        key: PKCS #8, not encrypted.
    """

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Issued({len(self.certificate)} bytes of PEM, key=********)"


def make_ca(name: str, clock: Clock, days: int = CA_DAYS) -> Issued:
    """Makes a certificate authority of its own.

    Args:
        name: of the authority.
        clock: dates the certificate.
        days: how long it is valid.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    own_name = _name(name)
    builder = (
        _builder(clock, days)
        .subject_name(own_name)
        .issuer_name(own_name)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _issued(builder, key, key)


def make_certificate(
    hosts: Sequence[str], ca: Issued, clock: Clock, days: int = SERVER_DAYS
) -> Issued:
    """Makes a certificate that serves servers as well as clients.

    Args:
        hosts: the names and addresses by which the server is reached; the first one is its name.
        ca: signs the certificate.
        clock: dates the certificate.
        days: how long it is valid.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

    issuer = x509.load_pem_x509_certificate(ca.certificate)
    signing_key = load_pem_private_key(ca.key, None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey), "made by make_ca"
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    builder = (
        _builder(clock, days)
        .subject_name(_name(hosts[0]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([Usage.SERVER_AUTH, Usage.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(map(_general_name, hosts)), critical=False)
        .add_extension(identifier, critical=False)
    )
    return _issued(builder, key, signing_key)


def hosts_of(certificate: bytes) -> list[str]:
    """The names and addresses that a certificate is valid for.

    Args:
        certificate: PEM.
    """
    from cryptography import x509

    names = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return [str(name.value) for name in names.value]


def days_left(certificate: bytes, clock: Clock) -> float:
    """How long a certificate is still valid, in days; below 0 when it has expired.

    Servers ask this each time that they start: it does without `cryptography`, whose code would
    cost each of them 13 MB.

    Args:
        certificate: PEM, or DER.
        clock: tells the time.

    Raises:
        ValueError: it is no certificate.
    """
    try:
        end = _valid_until(certificate)
    except (IndexError, UnicodeDecodeError) as e:
        raise ValueError(f"no certificate: {e}") from None
    return (end - _now(clock)) / timedelta(days=1)


def _valid_until(certificate: bytes) -> datetime:
    begin, end = certificate.find(_PEM_BEGIN), certificate.find(_PEM_END)
    if 0 <= begin < end:
        certificate = b64decode(certificate[begin + len(_PEM_BEGIN) : end])
    _, at, _ = _element(certificate, 0)
    _, at, _ = _element(certificate, at)
    tag, _, after = _element(certificate, at)
    if tag == _VERSION_TAG:  # version 1 has none
        at = after
    for _ in ("serial number", "algorithm", "issuer"):
        _, _, at = _element(certificate, at)
    _, at, _ = _element(certificate, at)
    _, _, at = _element(certificate, at)  # the time from which on it is valid
    tag, begin, end = _element(certificate, at)
    text = certificate[begin:end].decode("ascii")
    if tag == _SHORT_TIME_TAG:
        text = ("20" if text < "50" else "19") + text  # RFC 5280, 4.1.2.5.1
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of an element of DER, and where its content begins and ends."""
    tag, size, at = der[at], der[at + 1], at + 2
    if size > 127:  # then it is the length of the size
        size, at = int.from_bytes(der[at : at + size - 128], "big"), at + size - 128
    return tag, at, at + size


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now_ms() / 1000, UTC)


def _builder(clock: Clock, days: int) -> CertificateBuilder:
    from cryptography import x509

    now = _now(clock)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _issued(
    builder: CertificateBuilder, key: EllipticCurvePrivateKey, signing_key: EllipticCurvePrivateKey
) -> Issued:
    from cryptography.hazmat.primitives import hashes, serialization

    certificate = builder.sign(signing_key, hashes.SHA256())
    return Issued(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _name(text: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:NAME_LENGTH_MAX])])


def _general_name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
