"""Parses the head of an HTTP/1 message, as far as a forward proxy needs it (RFC 9110, RFC 9112).

Each connection carries one request: both heads get `Connection: close`, so that a client never sends its next request,
perhaps for another host, over a connection that is already tied to one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.contract import Destination

MAX_REQUEST_HEAD = 16 << 10
MAX_RESPONSE_HEAD = 64 << 10
END = b"\r\n\r\n"

_REQUEST = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,8192}) HTTP/1\.[01]")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n\0]*)?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_ABSOLUTE = re.compile(rb"(?i:http)://([^/?#@]+)(/[^#]*|\?[^#]*)?")
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authorization",
        b"proxy-authenticate",
        b"te",
        b"upgrade",
    }
)
_NEVER_DROPPED = frozenset({b"content-length", b"transfer-encoding", b"host"})  # even when `Connection` names them
_CONTINUE_CLASS = b"1"
_SWITCHING = b"101"


class BadHead(ValueError):
    """The head is not valid for a proxy. The message is for the client."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request. `tunnel` is true for CONNECT. `head` is what to send to the destination; empty for a tunnel."""

    destination: Destination
    tunnel: bool
    head: bytes = b""


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a head without the empty line that ends it. Raises BadHead."""
    first, *lines = head.split(b"\r\n")
    matched = _REQUEST.fullmatch(first)
    if not matched:
        raise BadHead("This is a proxy for HTTP/1.1, and that is no request line of it.")
    method, target = matched.groups()
    fields = [_field(line) for line in lines]
    if method == b"CONNECT":
        return ProxyRequest(_destination(target.decode()), tunnel=True)
    absolute = _ABSOLUTE.fullmatch(target)
    if not absolute:
        raise BadHead("This is a proxy: it takes CONNECT host:port, or a request for an http:// address.")
    authority, path = absolute.group(1).decode(), (absolute.group(2) or b"/").decode()
    destination = _destination(authority if re.search(r":\d+$", authority) else f"{authority}:80")
    line = f"{method.decode()} {path if path.startswith('/') else '/' + path} HTTP/1.1\r\nHost: {authority}\r\n"
    kept = _without_hops(fields, also=frozenset({b"host"}))
    return ProxyRequest(destination, tunnel=False, head=line.encode() + _joined(kept))


class ResponseRewriter:
    """Forwards a response, with a head that says that the connection ends with it."""

    def __init__(self) -> None:
        self._held: bytearray | None = bytearray()

    def __call__(self, data: bytes) -> bytes:
        """Return what can be forwarded. Pass b"" at the end of the stream. Raises BadHead."""
        if self._held is None:
            return data
        if not data:
            held, self._held = bytes(self._held), None
            return held
        self._held += data
        passed = b""
        while self._held is not None and (end := self._held.find(END)) >= 0:
            head, rest = bytes(self._held[:end]), self._held[end + len(END) :]
            status, rewritten = _rewrite(head)
            passed += rewritten
            if status.startswith(_CONTINUE_CLASS) and status != _SWITCHING:
                self._held = rest  # an interim response: the final one follows
            else:
                self._held = None
                passed += rest
        if self._held is not None and len(self._held) > MAX_RESPONSE_HEAD:
            raise BadHead("the head of the response is too long")
        return passed


def refusal(status: int, reason: str) -> bytes:
    """Return a whole response.

    Its first line also has the reason: for a refused CONNECT most clients show only that.
    """
    said = re.sub(r"[^\x20-\x7e]", "?", reason)[:400]
    body = f"{reason}\n".encode(errors="replace")
    return (
        f"HTTP/1.1 {status} {said}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _rewrite(head: bytes) -> tuple[bytes, bytes]:
    first, *lines = head.split(b"\r\n")
    matched = _STATUS.fullmatch(first)
    if not matched:
        raise BadHead("the destination did not answer in HTTP/1")
    status = matched.group(1)
    if status.startswith(_CONTINUE_CLASS):
        return status, head + END
    return status, first + b"\r\n" + _joined(_without_hops([_field(line) for line in lines]))


def _field(line: bytes) -> tuple[bytes, bytes]:
    matched = _FIELD.fullmatch(line)
    if not matched:
        raise BadHead(f"A header line is malformed: {line[:80]!r}.")
    return matched.group(1), matched.group(2)


def _without_hops(
    fields: Iterable[tuple[bytes, bytes]], also: frozenset[bytes] = frozenset()
) -> list[tuple[bytes, bytes]]:
    fields = list(fields)
    named = {
        token.strip().lower() for name, value in fields if name.lower() == b"connection" for token in value.split(b",")
    }
    dropped = _HOP_BY_HOP | (named - _NEVER_DROPPED) | also
    return [(name, value) for name, value in fields if name.lower() not in dropped]


def _joined(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(name + b": " + value + b"\r\n" for name, value in fields) + b"Connection: close\r\n\r\n"


def _destination(authority: str) -> Destination:
    try:
        return Destination.parse(authority)
    except ValueError as problem:
        raise BadHead(f"{problem}.") from None
