"""`ProgramCalls`: the calls that one program makes over its bridge.

Each is a call of the program's own turn, made by the engine, with the whole pipeline: the program can only ask. Its
audit has the id of the program's call and the position of the inner call, such as ``3f2a/17``.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from builtin_tools.bridge.answers import LargeResults, answer_result, answer_value, encode, failed
from builtin_tools.bridge.requests import (
    BadRequest,
    CallRequest,
    DescribeRequest,
    NamesRequest,
    ReadRequest,
    Request,
    SearchRequest,
    is_long,
    parse,
)
from builtin_tools.bridge.signatures import identifier, signature, stub
from engine.contract.context import CallContext
from engine.contract.failure import ToolFailure
from engine.contract.result import ToolCall
from engine.dispatch.inner_calls import InnerCalls
from engine.turn.discovery import Discovery

# A program inside a program would have a budget of calls and time of its own.
_NOT_WITHIN = frozenset({"execute"})
_MOST_NAMES = 1_000


@dataclass(frozen=True, slots=True)
class CallBounds:
    """The limits of the calls of one program.

    Attributes:
        calls: How many calls it may make.
        requests: How many requests of any kind it may make.
    """

    calls: int = 10_000
    requests: int = 50_000


class ProgramCalls:
    """Answers the requests of one program. Belongs to the call of `execute` that runs the program."""

    def __init__(self, ctx: CallContext, bounds: CallBounds | None = None) -> None:
        """Create the object.

        Args:
            ctx: The context of the call that runs the program.
            bounds: The limits; None for the defaults.
        """
        self._ctx = ctx
        self._inner = ctx.need(InnerCalls)
        self._discovery = ctx.need(Discovery)
        self._bounds = bounds or CallBounds()
        self._large = LargeResults()
        self._calls = self._requests = 0
        self._made: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._spent_s = 0.0
        self._names: dict[str, str] = {}  # the tools that the program has called, by the name that it used

    async def answer(self, payload: bytes) -> bytes:
        """Answer one request. Never raises, except if it is cancelled."""
        number = None
        try:
            self._count_request()
            number, request = await asyncio.to_thread(parse, payload) if is_long(payload) else parse(payload)
            fields = await self._fields(request)
        except BadRequest as problem:
            number, fields = problem.id if number is None else number, failed("invalid_request", str(problem))
        except ToolFailure as problem:
            fields = failed(problem.reason, str(problem), failure_class=problem.failure_class)
        return encode(number, fields)

    def _count_request(self) -> None:
        self._requests += 1
        if self._requests > self._bounds.requests:
            raise BadRequest(f"This program has made {self._bounds.requests:,} requests, which is the limit.")

    @property
    def count(self) -> int:
        """The number of calls so far."""
        return self._calls

    def summary(self) -> str:
        """Return one line about the calls: names, numbers, failures and time; "" if there were none."""
        if not self._made:
            return ""
        parts = []
        for name, made in self._made.most_common():
            bad = self._failed[name]
            parts.append(f"{name} {made:,}" + (f" ({bad:,} failed)" if bad else ""))
        return f"Calls: {', '.join(parts)}; {self._spent_s:.1f} s"

    def data(self) -> dict[str, Any]:
        """Return the same for the audit."""
        return {"calls": dict(self._made), "failed": dict(self._failed)} if self._made else {}

    async def _fields(self, request: Request) -> dict[str, Any]:
        match request:
            case CallRequest():
                return await self._call(request)
            case SearchRequest():
                found = await self._discovery.search(request.query, self._ctx.turn, request.limit)
                return {"value": [stub(spec) for spec in found.specs if spec.name not in _NOT_WITHIN]}
            case DescribeRequest():
                spec = await self._discovery.describe(await self._name_of(request.name), self._ctx.turn)
                described = {
                    "name": spec.name,
                    "signature": signature(spec),
                    "description": spec.description,
                    "parameters": dict(spec.parameters),
                    "returns": None if spec.returns is None else dict(spec.returns),
                }
                return answer_value(described, self._large)
            case NamesRequest():
                return {"value": await self._all_names()}
            case ReadRequest():
                part = self._large.part(request.handle, request.offset, request.characters)
                if part is None:
                    return failed("unknown_handle", "This program has no result with this handle.")
                return {"value": part}

    async def _call(self, request: CallRequest) -> dict[str, Any]:
        name = self._names.get(request.name) or await self._name_of(request.name)
        if name in _NOT_WITHIN:
            return failed("nested", f"A program cannot call {name}: run the code in the program itself.")
        if self._calls >= self._bounds.calls:
            return failed("too_many_calls", f"This program has made {self._bounds.calls:,} calls, which is the limit.")
        self._calls += 1
        position = self._calls
        began = time.perf_counter()
        result = await self._inner.call(self._ctx, ToolCall(name, request.arguments, str(position)))
        self._spent_s += time.perf_counter() - began
        self._made[name] += 1
        if not result.success:
            self._failed[name] += 1
        return answer_result(result, self._large)

    async def _name_of(self, asked: str) -> str:
        """Return the name of the tool for which a program uses this name, which may be its form as an identifier."""
        tool = await self._inner.find(asked, self._ctx.turn)
        name = asked if tool is None else tool.spec.name
        if tool is None:
            fitting = [each for each in await self._all_names() if identifier(each) == asked]
            name = fitting[0] if len(fitting) == 1 else asked
        if len(self._names) < _MOST_NAMES:
            self._names[asked] = name
        return name

    async def _all_names(self) -> list[str]:
        names: list[str] = []
        after = ""
        while len(names) < _MOST_NAMES:
            page = await self._discovery.page(self._ctx.turn, after)
            names += [spec.name for spec in page.specs if spec.name not in _NOT_WITHIN]
            after = page.next
            if not after:
                break
        return names[:_MOST_NAMES]
