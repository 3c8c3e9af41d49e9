"""`ProgramCalls`: the calls that one program makes over its bridge.

Each is a call of the program's own turn, made by the engine, with the whole pipeline: the program can only ask. Its
audit has the id of the program's call and the position of the inner call, such as ``3f2a/17``.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from builtin_tools.bridge.answers import LargeResults, encode, failed, fitting, plain_answer
from builtin_tools.bridge.program_record import Diverged, ProgramRecord
from builtin_tools.bridge.program_store import LOST
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
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.result import ToolCall
from engine.dispatch.inner_calls import InnerCalls
from engine.policy.approval import NOT_APPROVED, UNANSWERED
from engine.policy.person_waits import OnWait
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

    def __init__(self, ctx: CallContext, record: ProgramRecord | None = None, bounds: CallBounds | None = None) -> None:
        """Create the object.

        Args:
            ctx: The context of the call that runs the program.
            record: The calls of the program so far; None to keep none.
            bounds: The limits; None for the defaults.
        """
        self._ctx = ctx
        self._inner = ctx.need(InnerCalls)
        self._discovery = ctx.need(Discovery)
        self._record = record or ProgramRecord()
        self._bounds = bounds or CallBounds()
        self._large = LargeResults()
        self._calls = self._requests = 0
        self._made: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._spent_s = 0.0
        self._tools: dict[
            str, tuple[str, bool]
        ] = {}  # by the name that the program uses: the name, and if it has effects
        self.diverged = ""
        """Why the program was stopped when it ran again: where it asked for something else than before."""
        self.unapproved = ""
        """Why a call could not be approved: nobody could be asked, or nobody answered. The program can go on later."""

    async def answer(self, payload: bytes) -> bytes:
        """Answer one request. Never raises, except if it is cancelled."""
        number = None
        try:
            self._count_request()
            parsed = await asyncio.to_thread(parse, payload) if is_long(payload) else parse(payload)
            number, request, readings = parsed
            self._record.read_clock(readings)
            fields: Mapping[str, Any] = await self._fields(request)
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

    def clock_stopped_in_waits(self, also: OnWait) -> AbstractContextManager[None]:
        """Return a context in which the call's clock stands still while one of its calls waits for a person.

        `also()` is entered for the time of each such wait.
        """
        return self._inner.clock_stopped_in_waits(self._ctx, also)

    async def finish(self) -> str:
        """Store the record, put the calls into the audit of the program's own call, and return `summary`."""
        await self._record.finish()
        if self._made:
            self._ctx.audit.update({"calls": dict(self._made), "failed": dict(self._failed)})
        return self.summary()

    def raise_if_stopped(self, made: str) -> None:
        """Raise the failure of a program that was stopped because of its calls, whatever it did afterwards.

        Args:
            made: The summary of its calls.

        Raises:
            ToolFailure: It waits for an approval, or it ran again and asked for something else than before.
        """
        if self.unapproved:
            waits = refusal(f"{self.unapproved} The program stopped there and can go on. {made}", NOT_APPROVED)
            waits.failure_class, waits.output = FailureClass.FATAL, UNANSWERED
            raise waits
        if self.diverged:
            text = (
                f"The program was run again after an interruption and stopped, because it has changed: {self.diverged}."
            )
            raise ToolFailure(f"{text} {made}", failure_class=FailureClass.FATAL, reason="diverged")

    def summary(self) -> str:
        """Return one line about the calls: names, numbers, failures and time; "" if there were none."""
        if not self._made:
            return ""
        parts = []
        for name, made in self._made.most_common():
            bad = self._failed[name]
            parts.append(f"{name} {made:,}" + (f" ({bad:,} failed)" if bad else ""))
        return f"Calls: {', '.join(parts)}; {self._spent_s:.1f} s"

    async def _fields(self, request: Request) -> Mapping[str, Any]:
        match request:
            case CallRequest():
                return await self._call(request)
            case SearchRequest():
                found = await self._discovery.search(request.query, self._ctx.turn, request.limit)
                return {"value": [stub(spec) for spec in found.specs if spec.name not in _NOT_WITHIN]}
            case DescribeRequest():
                name, _ = await self._tool(request.name)
                spec = await self._discovery.describe(name, self._ctx.turn)
                described = {
                    "name": spec.name,
                    "signature": signature(spec),
                    "description": spec.description,
                    "parameters": dict(spec.parameters),
                    "returns": None if spec.returns is None else dict(spec.returns),
                }
                return fitting({"value": described}, self._large)
            case NamesRequest():
                return {"value": await self._all_names()}
            case ReadRequest():
                part = self._large.part(request.handle, request.offset, request.characters)
                if part is None:
                    return failed("unknown_handle", "This program has no result with this handle.")
                return {"value": part}

    async def _call(self, request: CallRequest) -> Mapping[str, Any]:
        name, has_effects = self._tools.get(request.name) or await self._tool(request.name)
        if name in _NOT_WITHIN:
            return failed("nested", f"A program cannot call {name}: run the code in the program itself.")
        if self._calls >= self._bounds.calls:
            return failed("too_many_calls", f"This program has made {self._bounds.calls:,} calls, which is the limit.")
        self._calls += 1
        answer = await self._answer_of(name, request.arguments, self._calls, has_effects=has_effects)
        self._made[name] += 1
        if "failed" in answer:
            self._failed[name] += 1
        return fitting(answer, self._large)

    async def _answer_of(
        self, name: str, arguments: Mapping[str, Any], position: int, *, has_effects: bool
    ) -> Mapping[str, Any]:
        """Return the recorded answer of a call that the program made before, or make the call and record the answer."""
        if self.unapproved:
            return failed(NOT_APPROVED, self.unapproved, failure_class=FailureClass.FATAL)
        try:
            earlier = None if self.diverged else self._record.find(name, arguments)
        except Diverged as found:
            self.diverged = str(found)
        if self.diverged:
            return failed("diverged", f"The program was stopped: {self.diverged}.", failure_class=FailureClass.FATAL)
        if earlier is not None and earlier.answer not in (None, LOST):
            return earlier.answer or {}
        if earlier is not None and has_effects:
            what = "It may have happened" if earlier.answer is None else "It happened, but its result was not kept"
            text = f"{name} was interrupted. {what}; look before you call it again."
            return failed("may_have_happened", text, may_have_happened=True)
        call = earlier.call if earlier is not None else None
        call = call or await self._record.begin(name, arguments, has_effects=has_effects)
        began = time.perf_counter()
        result = await self._inner.call(self._ctx, ToolCall(name, arguments, str(position)))
        self._spent_s += time.perf_counter() - began
        answer = plain_answer(result)
        if result.failure is not None and result.failure.reason == NOT_APPROVED and result.output == UNANSWERED:
            self.unapproved = result.text
            await self._record.forget(call)
            return answer
        await self._record.answered(call, answer, has_effects=has_effects)
        return answer

    async def _tool(self, asked: str) -> tuple[str, bool]:
        """Return the name of the tool for which a program uses this name, and whether calls of it may have effects.

        The name in the program may be its form as an identifier.
        """
        tool = await self._inner.find(asked, self._ctx.turn)
        if tool is None:
            fitting_names = [each for each in await self._all_names() if identifier(each) == asked]
            if len(fitting_names) == 1:
                tool = await self._inner.find(fitting_names[0], self._ctx.turn)
        found = (asked, True) if tool is None else (tool.spec.name, not tool.spec.replay_safe)
        if len(self._tools) < _MOST_NAMES:
            self._tools[asked] = found
        return found

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
