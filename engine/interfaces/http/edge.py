"""`Edge`: what every request passes before any route sees it. Whatever is refused here is refused for all routes.

In order: the Host header (against DNS rebinding), the origin of a page, the token, then the body: its type, its size
while it is read, the time it takes, and whether it is JSON at all. A route that is added later is behind all of it.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.contract.strict_json import JsonError, read_json
from engine.interfaces.http.answers import HttpProblem
from engine.interfaces.http.tokens import Caller
from engine.interfaces.http.traffic import Traffic, is_call
from sandbox.nodes import MAX_NODES, too_many_nodes

OPEN_PATHS = frozenset({"/health"})  # need no token, and say nothing
READ = "json"  # the key in a request's state of its decoded body
_READ_AT_ONCE = 4_096  # bytes: decoded in the event loop within a fraction of a millisecond
SEND_S = 30.0  # for a client to take what it is sent
_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


@dataclass(frozen=True, slots=True)
class Names:
    """What a Host header may say. any_address: every numeric address, too, for a server on all of its machine's:
    an attack by rebinding needs a name."""

    names: frozenset[str]
    any_address: bool = False

    def allow(self, host: str) -> bool:
        """Whether it is one of ours, whatever its port."""
        name = _without_port(host.strip().lower())
        return name in self.names or (self.any_address and is_address(name))


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """most: bytes. seconds: until all of it must be there."""

    most: int
    seconds: float


class Edge:
    """ASGI middleware. The route finds who asks in `request.state.caller`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        find: Callable[[str], Caller | None],
        names: Names,
        body: BodyLimits,
        origins: frozenset[str] = frozenset(),
        open_paths: frozenset[str] = OPEN_PATHS,
        own_pages: bool = False,
    ) -> None:
        """find: whose a token is; it may block. origins: whose pages may use the server, as an Origin header says it.
        open_paths: need no token. own_pages: there are pages of the server's own, which may use it."""
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
        sending = _guarded(send)
        with contextlib.ExitStack() as inside:
            try:
                headers = Headers(scope=scope)
                self._check_where(headers)
                if scope["path"] not in self._open_paths:
                    caller = scope.setdefault("state", {})["caller"] = await self._who(headers)
                    if is_call(scope):
                        inside.enter_context(self._traffic.call(caller))
                body = await self._read(headers, receive)
                if body:
                    scope.setdefault("state", {})[READ] = await read_off_the_loop(headers, body)
            except HttpProblem as problem:
                problem.headers.setdefault("Connection", "close")  # there may be a body that nobody has read
                await problem.answer()(scope, receive, sending)
                return
            await self._app(scope, _after(body, receive), sending)

    def _check_where(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._names.allow(hosts[0]):
            raise HttpProblem(
                HTTPStatus.MISDIRECTED_REQUEST,
                "The Host header names no host of this server. Use the address it listens at, or add the name to "
                "`hosts` of [http].",
            )
        for origin in headers.getlist("origin"):
            ours = self._own_pages and origin in {f"http://{hosts[0]}", f"https://{hosts[0]}"}
            if not ours and origin not in self._origins:
                text = "Pages of this origin may not use this server; `cors_origins` of [http] names those that may."
                raise HttpProblem(HTTPStatus.FORBIDDEN, text)

    async def _who(self, headers: Headers) -> Caller:
        given = headers.getlist("authorization")
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        caller = None
        if kind.lower() == "bearer" and token:
            caller = await asyncio.to_thread(self._find, token.strip())
        if caller is None:
            raise HttpProblem(
                HTTPStatus.UNAUTHORIZED,
                "A valid token is needed: Authorization: Bearer … (knackbox serve token add makes one).",
                {"WWW-Authenticate": 'Bearer realm="knackbox"'},
            )
        return caller

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body. b"" when there is none."""
        length = headers.get("content-length", "")
        if not length and "transfer-encoding" not in headers:
            return b""
        if length.isdigit() and int(length) > self._body.most:
            self._too_large()
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._body.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HttpProblem(HTTPStatus.BAD_REQUEST, "The body was cut off.")
                    part = message.get("body", b"")
                    size += len(part)
                    if size > self._body.most:
                        self._too_large()
                    parts.append(part)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            text = f"The body took more than {self._body.seconds:g} s."
            raise HttpProblem(HTTPStatus.REQUEST_TIMEOUT, text) from None
        return b"".join(parts)

    def _too_large(self) -> NoReturn:
        text = f"The body is larger than {self._body.most:,} bytes (`body_bytes` of [http])."
        raise HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


class ReadRequest(Request):
    """A request whose JSON the edge has decoded already."""

    async def json(self) -> Any:
        return self.scope["state"][READ] if READ in self.scope.get("state", {}) else await super().json()


class ReadRoute(APIRoute):
    """A route that takes the value the edge decoded, instead of decoding the body again in the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_read(request: Request) -> Response:
            return await handle(ReadRequest(request.scope, request.receive))

        return handle_read


async def read_off_the_loop(headers: Headers, body: bytes) -> Any:
    """The value of a body. A large one is decoded in a thread. Raises Problem."""
    content_type = headers.get("content-type", "")
    if len(body) <= _READ_AT_ONCE:
        return check_json(content_type, body)
    return await asyncio.to_thread(check_json, content_type, body)


def check_json(content_type: str, body: bytes) -> Any:
    """The value. Raises Problem for what is not JSON in UTF-8, plain and small enough for every tool to be given."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HttpProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send the body as Content-Type: application/json.")
    if too_many_nodes(body):
        text = f"The body has over {MAX_NODES:,} lists, objects and elements."
        raise HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    try:
        return read_json(body)
    except JsonError as error:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The body is not valid JSON: {error}.") from None


def is_address(text: str) -> bool:
    """Whether it is a numeric IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _after(body: bytes, receive: Receive) -> Receive:
    """`receive` of a request whose body was read already; what comes then is that the client is gone."""
    unread = [body]

    async def received() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return received


def _guarded(send: Send) -> Send:
    """`send` with our headers, and a limit to how long a client may take nothing."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = [(name.lower(), value) for name, value in message.get("headers", [])]
            given = {name for name, _ in said}
            message = {**message, "headers": [*said, *(each for each in _HEADERS if each[0] not in given)]}
        async with asyncio.timeout(SEND_S):
            await send(message)

    return sending
