"""`Edge`: checks every request before a route handles it, so that new routes are protected too.

It checks, in this order, the Host header (against DNS rebinding), the Origin header, the token and the body. The body
must have the right content type, arrive in time, not be too large, and be valid JSON.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.contract.strict_json import JsonError, read_json
from engine.interfaces.http.responses import HttpProblem
from engine.interfaces.http.tokens import Caller
from engine.interfaces.http.traffic import Traffic, is_call
from sandbox.nodes import MAX_NODES, too_many_nodes

OPEN_PATHS = frozenset({"/health"})  # these paths need no token and reveal nothing
MCP_PATH = "/mcp"  # the protocol defines the errors of its bodies, and 403 for a Host header that is not accepted
DECODED_BODY = "json"  # the key of the decoded body in a request's state
_DECODE_INLINE_BYTES = 4_096  # bodies up to this size are decoded in the event loop, in under a millisecond
SEND_TIMEOUT_S = 30.0  # time for a client to receive one part of a response
_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


@dataclass(frozen=True, slots=True)
class HostNames:
    """The accepted values of the Host header.

    Attributes:
        names: Accepted host names and addresses, without ports.
        any_address: Whether every numeric address is accepted too, for a server that listens on all addresses. That is
            safe because DNS rebinding needs a name.
    """

    names: frozenset[str]
    any_address: bool = False

    def allows(self, host: str) -> bool:
        """Return whether a Host header is accepted. Its port does not matter."""
        name = _without_port(host.strip().lower())
        return name in self.names or (self.any_address and is_address(name))


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits of a request body: its size in bytes, and the time in seconds until it must be complete."""

    max_bytes: int
    timeout_s: float


class Edge:
    """ASGI middleware that checks requests. It stores the caller in `request.state.caller`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        find: Callable[[str], Awaitable[Caller | None]],
        names: HostNames,
        body: BodyLimits,
        origins: frozenset[str] = frozenset(),
        open_paths: frozenset[str] = OPEN_PATHS,
        own_pages: bool = False,
    ) -> None:
        """Wrap an application.

        Args:
            app: The application to wrap.
            find: Function that returns the caller of a token, or None for an invalid token.
            names: The accepted values of the Host header.
            body: Limits of a request body.
            origins: Origins whose pages may use the server, as in an Origin header.
            open_paths: Paths that need no token.
            own_pages: Whether the server itself serves web pages. If so, these pages may use the server.
        """
        self._app = app
        self._origins = origins
        self._open_paths = open_paths
        self._own_pages = own_pages
        self._find = find
        self._names = names
        self._body = body
        self._traffic = Traffic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sending = _guarded_send(send)
        with contextlib.ExitStack() as inside:
            try:
                headers = Headers(scope=scope)
                is_mcp = scope["path"] == MCP_PATH
                self._check_host_and_origin(headers, is_mcp=is_mcp)
                if scope["path"] not in self._open_paths:
                    caller = scope.setdefault("state", {})["caller"] = await self._authenticate(headers)
                    if is_call(scope):
                        inside.enter_context(self._traffic.call(caller))
                body = await self._read_body(headers, receive)
                if is_mcp:
                    _check_nodes(body)
                elif body:
                    scope.setdefault("state", {})[DECODED_BODY] = await decode_body(headers, body)
            except HttpProblem as problem:
                problem.headers.setdefault("Connection", "close")  # the body may still be unread
                await problem.response()(scope, receive, sending)
                return
            await self._app(scope, _replay(body, receive), sending)

    def _check_host_and_origin(self, headers: Headers, *, is_mcp: bool) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._names.allows(hosts[0]):
            raise HttpProblem(
                HTTPStatus.FORBIDDEN if is_mcp else HTTPStatus.MISDIRECTED_REQUEST,
                "The Host header is not a name of this server. Use the address it listens on, or add the name to "
                "`hosts` of [http].",
            )
        for origin in headers.getlist("origin"):
            # MCP clients send the server's own origin; there is no page of this origin unless the server has pages.
            same_origin = (self._own_pages or is_mcp) and origin in {f"http://{hosts[0]}", f"https://{hosts[0]}"}
            if not same_origin and origin not in self._origins:
                raise HttpProblem(
                    HTTPStatus.FORBIDDEN,
                    "Pages of this origin may not use this server. To allow them, add the origin to `cors_origins` of "
                    "[http].",
                )

    async def _authenticate(self, headers: Headers) -> Caller:
        given = headers.getlist("authorization")
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        caller = None
        if kind.lower() == "bearer" and token:
            caller = await self._find(token.strip())
        if caller is None:
            raise HttpProblem(
                HTTPStatus.UNAUTHORIZED,
                "Send a valid token as Authorization: Bearer …. Create one with knackbox serve token add NAME.",
                {"WWW-Authenticate": 'Bearer realm="knackbox"'},
            )
        return caller

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        """Read the whole body. Return b"" if there is none."""
        length = headers.get("content-length", "")
        if not length and "transfer-encoding" not in headers:
            return b""
        if length.isdigit() and int(length) > self._body.max_bytes:
            self._too_large()
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._body.timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HttpProblem(HTTPStatus.BAD_REQUEST, "The connection closed before the body was complete.")
                    part = message.get("body", b"")
                    size += len(part)
                    if size > self._body.max_bytes:
                        self._too_large()
                    parts.append(part)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            text = f"The body did not arrive within {self._body.timeout_s:g} s (`body_s` of [http])."
            raise HttpProblem(HTTPStatus.REQUEST_TIMEOUT, text) from None
        return b"".join(parts)

    def _too_large(self) -> NoReturn:
        text = f"The body is larger than {self._body.max_bytes:,} bytes (`body_bytes` of [http])."
        raise HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


class DecodedRequest(Request):
    """A request whose body the edge has decoded."""

    async def json(self) -> Any:
        return (
            self.scope["state"][DECODED_BODY] if DECODED_BODY in self.scope.get("state", {}) else await super().json()
        )


class DecodedRoute(APIRoute):
    """A route that uses the body decoded by the edge instead of decoding it again in the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_read(request: Request) -> Response:
            return await handle(DecodedRequest(request.scope, request.receive))

        return handle_read


async def decode_body(headers: Headers, body: bytes) -> Any:
    """Decode a JSON body. A large body is decoded in a thread.

    Raises:
        HttpProblem: The body cannot be decoded (see `decode_json`).
    """
    content_type = headers.get("content-type", "")
    if len(body) <= _DECODE_INLINE_BYTES:
        return decode_json(content_type, body)
    return await asyncio.to_thread(decode_json, content_type, body)


def decode_json(content_type: str, body: bytes) -> Any:
    """Decode a JSON body.

    Raises:
        HttpProblem: 415 for another content type, 413 for too many values, 400 for invalid JSON.
    """
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HttpProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send the body as Content-Type: application/json.")
    _check_nodes(body)
    try:
        return read_json(body)
    except JsonError as error:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The body is not valid JSON: {error}.") from None


def _check_nodes(body: bytes) -> None:
    if too_many_nodes(body):
        text = f"The body has over {MAX_NODES:,} lists, objects and elements. Send fewer."
        raise HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


def is_address(text: str) -> bool:
    """Return whether a text is a numeric IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` function that delivers the body, which was read before, and then any further messages."""
    unread = [body]

    async def received() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return received


def _guarded_send(send: Send) -> Send:
    """Return a `send` function that adds security headers and disconnects clients that stop receiving."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name.lower(), value) for name, value in message.get("headers", [])]
            names = {name for name, _ in own}
            message = {**message, "headers": [*own, *(each for each in _HEADERS if each[0] not in names)]}
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await send(message)

    return sending
