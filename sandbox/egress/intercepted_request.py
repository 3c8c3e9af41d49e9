"""Checks the request of an intercepted connection, and writes it anew with the values of secrets."""

import re
from typing import TYPE_CHECKING

from sandbox.contract import Destination
from sandbox.egress.heads import BadHead
from sandbox.egress.interception import InterceptedDestination
from sandbox.egress.rules import canonical_host
from sandbox.egress.substitution import Fields

if TYPE_CHECKING:
    import h11

_METHOD = re.compile(rb"[A-Z]{1,20}")
_REFUSED_METHODS = frozenset({b"CONNECT", b"TRACE"})  # TRACE asks for the request itself as the response
_PORTS = {True: 443, False: 80}
# Fields that concern one connection (RFC 9110, 7.6.1), that frame the message, or that ask for less than a whole,
# uncompressed response, which could not be redacted.
_DROPPED = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"content-length",
        b"host",
        b"expect",
        b"accept-encoding",
        b"range",
        b"if-range",
        b"http2-settings",
    }
)


def check(request: "h11.Request", destination: Destination, *, tls: bool) -> None:
    """Check that a request is for the destination of its connection.

    Raises:
        BadHead: It is not, or it asks for something that cannot be redacted.
    """
    fields = request.headers.raw_items()
    if request.http_version not in {b"1.0", b"1.1"} or not _METHOD.fullmatch(request.method):
        raise BadHead("Secrets are substituted in HTTP/1.1 only.")
    if request.method in _REFUSED_METHODS:
        raise BadHead(f"{request.method.decode()} cannot be used with a destination that has secrets.")
    if not (request.target.startswith(b"/") or (request.target == b"*" and request.method == b"OPTIONS")):
        raise BadHead("The target of the request must be a path.")
    if any(name.lower() == b"upgrade" for name, _ in fields):
        raise BadHead("A connection to a destination that has secrets cannot be upgraded, for instance to a WebSocket.")
    hosts = [value for name, value in fields if name.lower() == b"host"]
    if len(hosts) != 1 or not _is_host(hosts[0], destination, tls=tls):
        raise BadHead(f"The Host field must be {destination.host}, as the connection is to {destination}.")


def head_fields(request: "h11.Request", found: InterceptedDestination) -> Fields:
    """Return the fields to send, without those that frame the body."""
    items = request.headers.raw_items()
    named = {
        token.strip().lower() for name, value in items if name.lower() == b"connection" for token in value.split(b",")
    }
    dropped = _DROPPED | named
    kept = [(name, found.substitution.field(name, value)) for name, value in items if name.lower() not in dropped]
    destination = found.destination
    host = str(destination) if destination.port != _PORTS[found.tls] else str(destination).rpartition(":")[0]
    return [(b"Host", host.encode()), *kept, (b"Accept-Encoding", b"identity"), (b"Connection", b"close")]


def _is_host(field: bytes, destination: Destination, *, tls: bool) -> bool:
    try:
        text = field.decode("ascii")
        named = Destination.parse(text if re.search(r":\d+$", text) else f"{text}:{_PORTS[tls]}")
        return Destination(canonical_host(named.host), named.port) == destination
    except ValueError:
        return False
