"""`Authority`: makes the certificates with which the proxy terminates TLS for destinations that have secrets.

The keys exist only in memory: the authority ends with the engine, and only boxes trust it.
"""

import asyncio
import datetime as dt
import ipaddress
import os
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_LASTS = dt.timedelta(days=397)  # the longest that clients accept (CA/Browser Forum, Baseline Requirements 6.3.2)
_SKEW = dt.timedelta(days=1)
HTTP_1 = "http/1.1"


class Authority:
    """A certificate authority of one sandbox. Its methods block for a few milliseconds when they create keys."""

    def __init__(self) -> None:
        from cryptography import x509  # noqa: PLC0415 -- takes 50 ms, which only a sandbox with secrets pays
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 -- likewise
        from cryptography.x509.oid import NameOID  # noqa: PLC0415 -- likewise

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of one Knackbox engine")])
        self._certificate = self._signed(self._name, self._key, ca=True)
        self._contexts: dict[str, ssl.SSLContext] = {}

    @classmethod
    async def create(cls) -> "Authority":
        """Create an authority in a thread."""
        return await asyncio.to_thread(cls)

    @property
    def pem(self) -> str:
        """The certificate of the authority, which boxes trust."""
        from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 -- see above

        return self._certificate.public_bytes(Encoding.PEM).decode("ascii")

    async def context(self, host: str) -> ssl.SSLContext:
        """Return the TLS context of a server that is `host` (canonical), and refuses clients that ask for another."""
        found = self._contexts.get(host)
        if found is None:
            found = self._contexts[host] = await asyncio.to_thread(self._context, host)
        return found

    def _context(self, host: str) -> ssl.SSLContext:
        from cryptography import x509  # noqa: PLC0415 -- see above
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 -- see above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 -- see above
        from cryptography.x509.oid import NameOID  # noqa: PLC0415 -- see above

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])  # X.520: at most 64 characters
        certificate = self._signed(name, key, host=host)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + certificate.public_bytes(serialization.Encoding.PEM)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The ssl module reads keys only from files; this one is in memory.
        descriptor = os.memfd_create("knackbox-certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        context.set_alpn_protocols([HTTP_1])
        context.sni_callback = _only(host)
        return context

    def _signed(
        self, name: "x509.Name", key: "ec.EllipticCurvePrivateKey", *, host: str = "", ca: bool = False
    ) -> "x509.Certificate":
        from cryptography import x509  # noqa: PLC0415 -- see above
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 -- see above
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415 -- see above

        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + _LASTS - _SKEW)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(_usage(ca=ca), critical=True)
        )
        if host:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
            builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


class _only:  # noqa: N801 -- a function with a value of its own
    """The check of the server name that a client asks for (SNI). Clients of an IP address send none."""

    def __init__(self, host: str) -> None:
        self._wanted = None if _is_address(host) else host

    def __call__(self, _socket: object, name: str | None, _context: object) -> int | None:
        asked = None if name is None else name.lower().rstrip(".")
        return None if asked == self._wanted else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME


def _usage(*, ca: bool) -> "x509.KeyUsage":
    from cryptography import x509  # noqa: PLC0415 -- see above

    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509  # noqa: PLC0415 -- see above

    return x509.IPAddress(ipaddress.ip_address(host)) if _is_address(host) else x509.DNSName(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
