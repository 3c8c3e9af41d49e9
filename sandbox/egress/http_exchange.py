"""`HttpExchange`: one request and its response over an intercepted connection, with substitution and redaction.

Both sides are parsed, and both messages are written anew with framing of their own, so that the box and the destination
cannot be made to read the same bytes differently. A connection carries one request.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sandbox.egress import heads, intercepted_request
from sandbox.egress.interception import InterceptedDestination
from sandbox.egress.substitution import PlaceholderInLongBody

if TYPE_CHECKING:
    import h11

_READ = 16 << 10  # small, because redacting a chunk that contains a value takes milliseconds
MOST_COLLECTED = 1 << 20  # bytes of a body with Content-Length whose length may change
_SWITCHING, _PARTIAL = 101, 206
# Fields of a response that concern one connection, frame the message, or point to other protocols and hosts.
_DROPPED = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"trailer",
        b"transfer-encoding",
        b"content-length",
        b"upgrade",
        b"alt-svc",
    }
)
_NOT_HTTP = "the destination did not answer in HTTP/1.1"


class Refusal(Exception):
    """A message cannot be passed on.

    Attributes:
        status: The status code of the response that the box gets instead.
        reason: Why the message is refused.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ExchangeSide:
    """One side of the connection: a stream, and the state of its messages."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        state: "h11.Connection",
        touch: Callable[[], None],
    ) -> None:
        """Create the side. `touch` is called whenever data passes."""
        self.writer = writer
        self.state = state
        self.written = 0
        self._reader = reader
        self._touch = touch

    async def event(self) -> Any:
        """Return the next h11 event, reading as needed.

        Raises:
            RemoteProtocolError: The peer violates HTTP/1.1, or its message is incomplete.
        """
        import h11  # noqa: PLC0415 -- see `sandbox.egress.heads`

        while (event := self.state.next_event()) is h11.NEED_DATA:
            if self.state.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self.state.receive_data(await self._reader.read(_READ))
            self._touch()
        return event

    async def send(self, event: Any) -> None:
        data = self.state.send(event)
        if data:
            await self.write(data)

    async def write(self, data: bytes) -> None:
        self.written += len(data)
        self.writer.write(data)
        await self.writer.drain()
        self._touch()


class HttpExchange:
    """One request from the box, and its response."""

    def __init__(
        self, inside: ExchangeSide, outside: ExchangeSide, found: InterceptedDestination, sent: asyncio.Event
    ) -> None:
        """Create the exchange. `run` forwards the messages.

        Args:
            inside: The box's side, with an h11 state of a server.
            outside: The destination's side, with an h11 state of a client.
            found: The destination and its secrets.
            sent: Set once the whole request is forwarded.
        """
        self._inside, self._outside = inside, outside
        self._found = found
        self._substitution = found.substitution
        self._sent = sent

    async def run(self) -> str:
        """Forward the request and the response. Return "" for success, or why one was refused.

        Raises:
            OSError: A connection broke, or a message is incomplete, so the box must see an incomplete one too.
        """
        try:
            request = await self._request()
            if request is not None:
                await self._forward(request)
        except Refusal as refusal:
            await self._refuse(refusal)
            return refusal.reason
        return ""

    async def _request(self) -> "h11.Request | None":
        """Return the request, after checking it. Return None if the program connected and sent nothing."""
        import h11  # noqa: PLC0415 -- see `sandbox.egress.heads`

        try:
            request = await self._inside.event()
            if not isinstance(request, h11.Request):
                return None
            intercepted_request.check(request, self._found.destination, tls=self._found.tls)
        except h11.RemoteProtocolError:
            raise Refusal(400, "The request is not valid HTTP/1.1.") from None
        except heads.BadHead as problem:
            raise Refusal(400, str(problem)) from None
        return request

    async def _forward(self, request: "h11.Request") -> None:
        """Send the request while the response is awaited, which may arrive before the request is complete."""
        import h11  # noqa: PLC0415 -- see `sandbox.egress.heads`

        uploading = asyncio.ensure_future(self._upload(request))
        answering = asyncio.ensure_future(self._answer())
        try:
            await asyncio.wait({uploading, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                uploading.result()
            await answering
        except h11.ProtocolError:  # its message may quote a value
            raise Refusal(502, "The request or the response is not valid HTTP/1.1.") from None
        except PlaceholderInLongBody:
            limit = f"{MOST_COLLECTED >> 20} MiB"
            raise Refusal(413, f"A secret in a body of over {limit} needs chunked transfer encoding.") from None
        finally:
            for task in (uploading, answering):
                task.cancel()
            await asyncio.wait({uploading, answering})
            for task in (uploading, answering):
                if not task.cancelled():
                    task.exception()  # marks it as retrieved; the first error has been reported

    async def _upload(self, request: "h11.Request") -> None:
        import h11  # noqa: PLC0415 -- see `sandbox.egress.heads`

        given = {name.lower(): value for name, value in request.headers.raw_items()}
        content_type = given.get(b"content-type", b"")
        chunked = b"transfer-encoding" in given
        length = 0 if chunked else int(given.get(b"content-length", b"0"))
        fields = intercepted_request.head_fields(request, self._found)
        target = self._substitution.target(request.target)
        body = b""
        if chunked:
            fields.append((b"Transfer-Encoding", b"chunked"))
            passing = self._substitution.body_stream(content_type)
        elif length > MOST_COLLECTED:
            fields.append((b"Content-Length", str(length).encode()))
            passing = self._substitution.refusing_stream()
        else:
            body = self._substitution.body(await self._collected(), content_type)
            if b"content-length" in given:
                fields.append((b"Content-Length", str(len(body)).encode()))
        await self._outside.send(h11.Request(method=request.method, target=target, headers=fields))
        if body:
            await self._outside.send(h11.Data(data=body))
        while (chunked or length > MOST_COLLECTED) and isinstance(event := await self._inside.event(), h11.Data):
            if data := passing.feed(bytes(event.data)):
                await self._outside.send(h11.Data(data=data))
            await asyncio.sleep(0)  # sockets that are always ready would otherwise never yield to the loop
        if (chunked or length > MOST_COLLECTED) and (data := passing.end()):
            await self._outside.send(h11.Data(data=data))
        await self._outside.send(h11.EndOfMessage())  # without trailers
        self._sent.set()

    async def _collected(self) -> bytes:
        import h11  # noqa: PLC0415 -- see `sandbox.egress.heads`

        collected = bytearray()
        while isinstance(event := await self._inside.event(), h11.Data):
            collected += event.data
        return bytes(collected)

    async def _answer(self) -> None:
        import h11  # noqa: PLC0415 -- see `sandbox.egress.heads`

        response = await self._outside.event()
        while isinstance(response, h11.InformationalResponse):
            if response.status_code == _SWITCHING:
                raise Refusal(502, "The destination switched to another protocol, in which secrets cannot be redacted.")
            response = await self._outside.event()
        if not isinstance(response, h11.Response):
            raise Refusal(502, _NOT_HTTP)
        fields = _passed_on(response)
        reason = self._substitution.redactor.raw(bytes(response.reason))
        headers = [*self._substitution.redacted(fields), (b"Connection", b"close")]
        await self._inside.send(h11.Response(status_code=response.status_code, reason=reason, headers=headers))
        redacting = self._substitution.redactor.stream()
        while isinstance(event := await self._outside.event(), h11.Data):
            if data := redacting.feed(bytes(event.data)):
                await self._inside.send(h11.Data(data=data))
            await asyncio.sleep(0)
        if data := redacting.end():
            await self._inside.send(h11.Data(data=data))
        await self._inside.send(h11.EndOfMessage())  # without trailers

    async def _refuse(self, refusal: Refusal) -> None:
        """Send a refusal to the box.

        Raises:
            ConnectionError: A response has begun, so the box must see that it is incomplete.
        """
        import h11  # noqa: PLC0415 -- see `sandbox.egress.heads`

        if self._inside.state.our_state not in {h11.IDLE, h11.SEND_RESPONSE, h11.ERROR}:
            raise ConnectionError(refusal.reason)
        await self._inside.write(heads.refusal(refusal.status, refusal.reason))


def _passed_on(response: "h11.Response") -> list[tuple[bytes, bytes]]:
    """Return the fields of a response that the box receives.

    Raises:
        Refusal: The response is compressed or partial, so that a value in it could not be found.
    """
    items = response.headers.raw_items()
    if response.status_code == _PARTIAL:
        raise Refusal(502, "The destination answered with a part of the content, in which secrets cannot be redacted.")
    codings = [value.strip().lower() for name, value in items if name.lower() == b"content-encoding"]
    if any(coding not in {b"", b"identity"} for coding in codings):
        raise Refusal(502, "The destination compressed its response against the request, so it cannot be redacted.")
    named = {
        token.strip().lower() for name, value in items if name.lower() == b"connection" for token in value.split(b",")
    }
    return [(name, value) for name, value in items if name.lower() not in _DROPPED | named]
