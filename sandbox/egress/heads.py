"""Parses the head of an HTTP/1 message, as far as a forward proxy needs it (RFC 9110, RFC 9112).

Each connection carries one request: `Connection: close` is added to the heads of the request and the response. So a
client never reuses a connection to one host for a request to another host.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.contract import Destination

MAX_REQUEST_HEAD = 16 << 10
MAX_RESPONSE_HEAD = 64 << 10
END = b"\r\n\r\n"

# h11 accepts other methods and versions, bare line feeds, and folded lines; this proxy does not.
_REQUEST_LINE = re.compile(rb"[A-Z]{1,20} [\x21-\x7e]{1,8192} HTTP/1\.[01]")
_LENIENT = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]")
_HOST = re.compile(rb"(?i)\r\nhost[ \t]*:")
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
    """The head of a request or a response is not acceptable to the proxy."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A parsed request. `tunnel` is true for CONNECT. `head` is sent to the destination; it is empty for a tunnel."""

    destination: Destination
    tunnel: bool
    head: bytes = b""


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a head without the empty line that ends it.

    Raises:
        BadHead: The head is not a valid request to a proxy.
    """
    import h11  # noqa: PLC0415 -- it takes 15 ms, which only a process with egress pays

    if not _REQUEST_LINE.fullmatch(head.partition(b"\r\n")[0]):
        raise BadHead("This is a proxy for HTTP/1.1, and the first line is not a valid request line.")
    if _LENIENT.search(head):
        raise BadHead("A header line is folded, or ends without a carriage return and a line feed.")
    if not _HOST.search(head):
        # h11 requires the Host field. The proxy takes the host from the target of the request and ignores the field.
        head += b"\r\nHost: -"
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_HEAD)
    reader.receive_data(head + END)
    try:
        request = reader.next_event()
    except h11.RemoteProtocolError as problem:
        raise BadHead(f"The head of the request is malformed: {problem}.") from None
    if not isinstance(request, h11.Request):
        raise BadHead("The head of the request is not complete.")
    target, fields = request.target, request.headers.raw_items()
    if request.method == b"CONNECT":
        return ProxyRequest(_destination(target.decode()), tunnel=True)
    absolute = _ABSOLUTE.fullmatch(target)
    if not absolute:
        raise BadHead("This is a proxy: it accepts CONNECT host:port, or a request for an http:// address.")
    authority, path = absolute.group(1).decode(), (absolute.group(2) or b"/").decode()
    destination = _destination(authority if re.search(r":\d+$", authority) else f"{authority}:80")
    line = f"{request.method.decode()} {path if path.startswith('/') else '/' + path} HTTP/1.1\r\nHost: {authority}\r\n"
    kept = _without_hops(fields, also=frozenset({b"host"}))
    return ProxyRequest(destination, tunnel=False, head=line.encode() + _joined(kept))


class ResponseRewriter:
    """Rewrites the head of a response, so that the client closes the connection after this response."""

    def __init__(self) -> None:
        self._held: bytearray | None = bytearray()

    def __call__(self, data: bytes) -> bytes:
        """Add received bytes; return the bytes that can now be forwarded. Pass b"" at the end of the stream.

        Raises:
            BadHead: The head of the response is malformed or too long.
        """
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
    """Return a complete HTTP response that refuses a request.

    The status line contains the reason too, because for a refused CONNECT most clients show only that line.
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
