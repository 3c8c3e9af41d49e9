"""Calls the tools of the turn from a program in a box: ``from knackbox import tools``.

``tools.NAME(argument=value)`` calls a tool and returns its result. In ``async def`` code the same call returns an
awaitable, so ``await tools.NAME()`` and ``asyncio.gather`` work. A call that fails raises `ToolError`. Every call is
decided upon and made outside of the box. Standard library only.
"""

import json
import os
import socket
import struct
import sys
import threading
import types
from typing import Any

_VARIABLES = "KNACKBOX_SECRET_"  # how the variables with placeholders begin
_LENGTH = struct.Struct("!I")
_READ = 1 << 16
_PIECE = 1 << 20  # characters of a large result fetched at once
_ASYNC = 0x80 | 0x200  # CO_COROUTINE and CO_ASYNC_GENERATOR of `inspect`, which is slow to import
_COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>")
_TYPES = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict, "null": None,
}  # fmt: skip

__all__ = ["LargeResult", "ToolError", "secrets", "tools"]


class ToolError(Exception):
    """A call failed. The text says why, and what to do about it, such as which tool may help instead.

    Attributes:
        tool: The name of the tool.
        failure_class: ``"RETRYABLE"``, ``"FATAL"``, ``"DIAGNOSTIC"`` or ``"UNKNOWN"``.
        reason: A short identifier of the cause, such as ``"denied"``.
        may_have_happened: Whether the call may have had an effect nevertheless.
        output: What the tool returned with the failure, if anything.
        alternatives: Calls to make instead, best first: dictionaries with `tool`, `arguments` and `note`.
    """

    def __init__(self, tool: str, failed: "dict[str, Any]") -> None:
        super().__init__(failed.get("message") or f"{tool} failed.")
        self.tool = tool
        self.failure_class = failed.get("class", "")
        self.reason = failed.get("reason", "")
        self.may_have_happened = bool(failed.get("may_have_happened"))
        self.output = failed.get("output")
        self.alternatives = failed.get("alternatives") or []


class LargeResult:
    """A result that is too large to be sent at once. It stays outside until the program ends, and is read in pieces.

    Attributes:
        characters: The length of the result as text; JSON text if the result is not a string.
        start: The first characters.
    """

    def __init__(self, large: "dict[str, Any]") -> None:
        self._handle = large["handle"]
        self.characters = large["characters"]
        self.start = large["start"]

    def __repr__(self) -> str:
        return f"<LargeResult of {self.characters:,} characters; use .text(), .lines(), .json() or .read()>"

    def read(self, offset: int = 0, characters: int = _PIECE) -> str:
        """Return a part of the result's text."""
        return str(_ask({"do": "read", "handle": self._handle, "offset": offset, "characters": characters}))

    def text(self) -> str:
        """Return the whole text."""
        return "".join(self._pieces())

    def lines(self) -> "Any":
        """Yield the lines of the text, without their ends, a piece at a time."""
        rest = ""
        for piece in self._pieces():
            *whole, rest = (rest + piece).split("\n")
            yield from whole
        if rest:
            yield rest

    def json(self) -> "Any":
        """Return the result as a value."""
        return json.loads(self.text())

    def _pieces(self) -> "Any":
        for offset in range(0, self.characters, _PIECE):
            yield self.read(offset)


class ToolFunction:
    """One tool. Call it with keyword arguments, or with positional ones in the order of its signature."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "knackbox"
        self._described: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<tool {self.__name__}>"

    def __call__(self, *positional: "Any", **arguments: "Any") -> "Any":
        """Call the tool; in async code, return an awaitable of its result."""
        if positional:
            names = list(self._schema().get("properties", {}))
            if len(positional) > len(names):
                raise TypeError(f"{self.__name__}() takes {len(names)} arguments but {len(positional)} were given")
            for name, value in zip(names, positional):  # noqa: B905  (there may be fewer positional arguments)
                if name in arguments:
                    raise TypeError(f"{self.__name__}() got multiple values for argument {name!r}")
                arguments[name] = value
        request = {"do": "call", "name": self.__name__, "arguments": arguments}
        return _Pending(request) if _called_from_async_code() else _ask(request)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return str(self._description().get("description", ""))

    @property
    def __signature__(self) -> "Any":
        import inspect  # noqa: PLC0415  (slow, and most programs do not use it)

        schema, parameters = self._schema(), []
        required = schema.get("required", ())
        for name, given in schema.get("properties", {}).items():
            if not name.isidentifier():
                continue
            kind = given.get("type") if isinstance(given, dict) else None
            hint: Any = _TYPES.get(kind, inspect.Parameter.empty) if isinstance(kind, str) else inspect.Parameter.empty
            default = inspect.Parameter.empty if name in required else dict(given).get("default")
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
        return inspect.Signature(parameters)

    def _description(self) -> "dict[str, Any]":
        if self._described is None:
            self._described = _ask({"do": "describe", "name": self.__name__})
        return self._described

    def _schema(self) -> "dict[str, Any]":
        return dict(self._description().get("parameters", {}))


class Tools:
    """The tools that this turn may call, as attributes; `tools["name"]` for names that are not identifiers."""

    def __init__(self) -> None:
        self._known: dict[str, ToolFunction] = {}

    def __getattr__(self, name: str) -> ToolFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> ToolFunction:
        return self._known.setdefault(name, ToolFunction(name))

    def __dir__(self) -> "list[str]":
        return ["describe", "search", *_ask({"do": "names"})]

    def search(self, query: str, limit: int = 10) -> "Any":
        """Return the signatures and summaries of the tools that fit best, best first."""
        request = {"do": "search", "query": query, "limit": limit}
        return _Pending(request) if _called_from_async_code() else _ask(request)

    def describe(self, name: str) -> "Any":
        """Return the description and the JSON schema of a tool's arguments."""
        request = {"do": "describe", "name": name}
        return _Pending(request) if _called_from_async_code() else _ask(request)


class Secrets:
    """The secrets that tools of the turn may receive, as attributes. In a box, a secret is only a placeholder.

    Pass it to a tool, or send it to a host of the secret. Outside of the box, the value takes its place.
    """

    def __getattr__(self, name: str) -> str:
        try:
            return os.environ[_VARIABLES + name]
        except KeyError:
            known = ", ".join(dir(self)) or "none"
            raise AttributeError(f"There is no secret called {name} for this program. Known: {known}.") from None

    def __dir__(self) -> "list[str]":
        return sorted(name[len(_VARIABLES) :] for name in os.environ if name.startswith(_VARIABLES))


class _Pending:
    """A call in async code, made when it is awaited."""

    def __init__(self, request: "dict[str, Any]") -> None:
        self._request = request

    def __await__(self) -> "Any":
        return _ask_async(self._request).__await__()

    def __getattr__(self, name: str) -> "Any":
        raise AttributeError(f"The result is not here yet: write `await tools.{self._request.get('name', '')}(…)`.")

    def __getitem__(self, key: object) -> "Any":
        raise TypeError(f"The result is not here yet: write `await tools.{self._request.get('name', '')}(…)`.")


def _called_from_async_code() -> bool:
    """Return whether the code that calls a tool is the body of an async function, or a comprehension in one."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001
    while frame is not None and frame.f_code.co_name in _COMPREHENSIONS and not frame.f_code.co_flags & _ASYNC:
        frame = frame.f_back
    return frame is not None and bool(frame.f_code.co_flags & _ASYNC)


def _connect() -> socket.socket:
    where = os.environ.get("KNACKBOX_BRIDGE", "")
    if not where:
        raise RuntimeError("This program cannot call tools: it was started without the bridge.")
    host, _, port = where.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _packed(request: "dict[str, Any]") -> bytes:
    world = sys.modules.get("knackbox_world")
    if world is not None and world.unsent:
        request = {**request, "clock": world.unsent[:]}
        world.unsent.clear()
    try:
        payload = json.dumps(request, allow_nan=False).encode()
    except (TypeError, ValueError) as problem:
        raise TypeError(
            f"The arguments of {request.get('name')} are not JSON ({problem}). Write bytes to a file in the workspace "
            "and pass its path."
        ) from None
    return _LENGTH.pack(len(payload)) + payload


def _result(answer: "dict[str, Any]", request: "dict[str, Any]") -> "Any":
    if "failed" in answer:
        raise ToolError(request.get("name", request["do"]), answer["failed"])
    if "large" in answer:
        return LargeResult(answer["large"])
    return answer.get("value")


class _Connections(threading.local):
    """The connection of each thread. A forked child does not use that of its parent."""

    owner = 0
    end: "socket.socket | None" = None


_connections = _Connections()


def _ask(request: "dict[str, Any]") -> "Any":
    """Send a request and wait for its answer."""
    packed = _packed(request)
    mine = _connections
    if mine.end is None or mine.owner != os.getpid():
        mine.end, mine.owner = _connect(), os.getpid()
    end, mine.end = mine.end, None  # a request that is interrupted leaves an answer behind: then connect again
    end.sendall(packed)
    received = bytearray()
    while len(received) < _LENGTH.size or len(received) < _LENGTH.size + _LENGTH.unpack_from(received)[0]:
        data = end.recv(_READ)
        if not data:
            raise RuntimeError("The bridge to the tools is closed.")
        received += data
    mine.end = end
    return _result(json.loads(memoryview(received)[_LENGTH.size :].tobytes()), request)


class _AsyncChannel:
    """The connection of one event loop. Many requests can wait for answers on it."""

    def __init__(self) -> None:
        self.waiting: dict[int, Any] = {}
        self.sent = 0
        self.writer: Any = None
        self.reading: Any = None

    async def open(self) -> None:
        import asyncio  # noqa: PLC0415  (slow, and most programs do not use it)

        reader, self.writer = await asyncio.open_connection(sock=_connect())
        self.reading = asyncio.ensure_future(self._read(reader))

    async def _read(self, reader: "Any") -> None:
        try:
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                answer = json.loads(await reader.readexactly(length))
                waiter = self.waiting.pop(answer["id"], None)
                if waiter is not None and not waiter.done():
                    waiter.set_result(answer)
        except Exception:  # noqa: BLE001  (the end of the stream, in whatever form)
            for waiter in self.waiting.values():
                if not waiter.done():
                    waiter.set_exception(RuntimeError("The bridge to the tools is closed."))


_channels: "dict[int, tuple[Any, Any]]" = {}  # by the id of the event loop: the loop, and a task that opens a channel


async def _ask_async(request: "dict[str, Any]") -> "Any":
    import asyncio  # noqa: PLC0415  (imported already, since an event loop runs)

    loop = asyncio.get_running_loop()
    key = hash((id(loop), os.getpid()))
    if key not in _channels or _channels[key][0] is not loop:
        channel = _AsyncChannel()
        _channels[key] = (loop, (channel, asyncio.ensure_future(channel.open())))
    channel, opening = _channels[key][1]
    if not opening.done():
        await asyncio.shield(opening)
    opening.result()
    channel.sent += 1
    waiter = channel.waiting[channel.sent] = loop.create_future()
    try:
        channel.writer.write(_packed({**request, "id": channel.sent}))
        answer = await waiter
    finally:
        channel.waiting.pop(channel.sent, None) if waiter.cancelled() else None
    return _result(answer, request)


tools = Tools()
secrets = Secrets()
