"""`ProgramCalls`: the calls that one program makes over its bridge.

Each is a call of the program's own turn, made by the engine, with the whole pipeline: the program can only ask. Its
audit has the id of the program's call and the position of the inner call, such as ``3f2a/17``.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from builtin_tools.bridge.answers import UNSURE, LargeResults, encode, failed, fitting, plain_answer
from builtin_tools.bridge.call_counts import CallCounts
from builtin_tools.bridge.planned_calls import ProgramPlan
from builtin_tools.bridge.program_record import Diverged, ProgramRecord
from builtin_tools.bridge.requests import (
    BadRequest,
    CallRequest,
    DescribeRequest,
    FindRequest,
    NamesRequest,
    ReadRequest,
    Request,
    is_long,
    parse,
)
from builtin_tools.bridge.signatures import described, stub
from builtin_tools.bridge.tool_names import NOT_WITHIN, KnownTool, ToolNames
from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.result import ToolCall
from engine.dispatch.inner_calls import InnerCalls
from engine.policy.approval import NOT_APPROVED, UNANSWERED
from engine.policy.person_waits import OnWait
from engine.stores.program_store import LOST
from engine.turn.discovery import Discovery


@dataclass(frozen=True, slots=True)
class CallBounds:
    """The limits of the calls of one program.

    Attributes:
        calls: How many calls it may make.
        requests: How many requests of any kind it may make.
        bytes: The size of all its requests together, which also bounds what a record or a plan of them holds.
    """

    calls: int = 10_000
    requests: int = 50_000
    bytes: int = 64 << 20


class ProgramCalls:
    """Answers the requests of one program. Belongs to the call of `execute` that runs the program."""

    def __init__(
        self,
        ctx: CallContext,
        record: ProgramRecord | None = None,
        bounds: CallBounds | None = None,
        plan: ProgramPlan | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        """Create the object.

        Args:
            ctx: The context of the call that runs the program.
            record: The calls of the program so far; None to keep none.
            bounds: The limits; None for the defaults.
            plan: Collects the calls that change something; None to make them.
            only: The names of the tools that the program declares, and to which it is limited; None for all.
        """
        self._ctx = ctx
        self._inner = ctx.need(InnerCalls)
        self._discovery = ctx.need(Discovery)
        self._names = ToolNames(ctx.turn, self._inner, self._discovery)
        self._record = record or ProgramRecord()
        self._bounds = bounds or CallBounds()
        self._plan = plan
        self._only = only
        self._large = LargeResults()
        self._counts = CallCounts()
        self._calls = self._requests = self._bytes = 0
        self.diverged = ""
        """Why the program was stopped when it ran again: where it asked for something else than before."""
        self.unapproved = ""
        """Why a call could not be approved: nobody could be asked, or nobody answered. The program can go on later."""

    @property
    def recorded(self) -> bool:
        """Whether the calls are stored, so that the program can run again."""
        return self._record.stored

    async def answer(self, payload: bytes) -> bytes:
        """Answer one request. Never raises, except if it is cancelled."""
        number = None
        try:
            self._count_request(len(payload))
            parsed = await asyncio.to_thread(parse, payload) if is_long(payload) else parse(payload)
            number, request, readings = parsed
            self._record.read_clock(readings)
            fields: Mapping[str, Any] = fitting(await self._fields(request), self._large)
        except BadRequest as problem:
            number, fields = problem.id if number is None else number, failed("invalid_request", str(problem))
        except ToolFailure as problem:
            fields = failed(problem.reason, str(problem), failure_class=problem.failure_class)
        return encode(number, fields)

    async def make(
        self, name: str, arguments: Mapping[str, Any], known: KnownTool | None = None, *, approved: bool = False
    ) -> Mapping[str, Any]:
        """Make a call and return the fields of its answer: the recorded ones if the program made the call before.

        Args:
            name: The name of the tool in the engine.
            arguments: The arguments.
            known: The tool, if it has been looked up.
            approved: Whether a person has approved exactly this call already.
        """
        if self._calls >= self._bounds.calls:
            return failed("too_many_calls", f"This program has made {self._bounds.calls:,} calls, which is the limit.")
        self._calls += 1
        known = known or await self._names.find(name)
        answer = await self._answer_of(known, arguments, self._calls, approved=approved)
        self._counts.add(name, failed="failed" in answer)
        return answer

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context in which the deadline of the program's call stands still."""
        return self._inner.clock_stopped(self._ctx)

    def clock_stopped_in_waits(self, also: OnWait) -> AbstractContextManager[None]:
        """Return a context in which the call's clock stands still while one of its calls waits for a person.

        `also()` is entered for the time of each such wait.
        """
        return self._inner.clock_stopped_in_waits(self._ctx, also)

    async def finish(self) -> str:
        """Store the record, put the calls into the audit of the program's own call, and return a line about them."""
        await self._record.finish()
        self._ctx.audit.update(self._counts.data())
        return self._counts.summary()

    def raise_if_stopped(self, made: str) -> None:
        """Raise the failure of a program that was stopped because of its calls, whatever it did afterwards.

        Args:
            made: The line about its calls.

        Raises:
            ToolFailure: It waits for an approval, or it ran again and asked for something else than before.
        """
        if self.unapproved:
            waits = refusal(f"{self.unapproved} The program stopped there and can go on. {made}", NOT_APPROVED)
            waits.failure_class, waits.output = FailureClass.FATAL, UNANSWERED
            raise waits
        if self.diverged:
            text = f"The program ran again after an interruption, and was stopped because it differs: {self.diverged}."
            raise ToolFailure(f"{text} {made}", failure_class=FailureClass.FATAL, reason="diverged")

    def _count_request(self, size: int) -> None:
        self._requests += 1
        self._bytes += size
        if self._requests > self._bounds.requests:
            raise BadRequest(f"This program has made {self._bounds.requests:,} requests, which is the limit.")
        if self._bytes > self._bounds.bytes:
            raise BadRequest(
                "This program has sent too much. Write data to files in the workspace and pass their paths."
            )

    async def _fields(self, request: Request) -> Mapping[str, Any]:  # noqa: PLR0911 -- one return per request
        match request:
            case CallRequest():
                return await self._call(request)
            case FindRequest() if self._only is not None:
                return failed("not_declared", "This program declares its tools, so it cannot search for others.")
            case FindRequest():
                found = await self._discovery.search(request.query, self._ctx.turn, request.limit)
                return {"value": [stub(spec) for spec in found.specs if spec.name not in NOT_WITHIN]}
            case DescribeRequest():
                known = await self._names.find(request.name)
                if (undeclared := self._undeclared(known)) is not None:
                    return undeclared
                return {"value": described(await self._discovery.describe(known.name, self._ctx.turn))}
            case NamesRequest() if self._only is not None:
                return {"value": sorted(self._only)}
            case NamesRequest():
                return {"value": await self._names.all()}
            case ReadRequest():
                part = self._large.part(request.handle, request.offset, request.characters)
                if part is None:
                    return failed("unknown_handle", "This program has no result with this handle.")
                return {"value": part}

    async def _call(self, request: CallRequest) -> Mapping[str, Any]:
        known = await self._names.find(request.name)
        if known.name in NOT_WITHIN:
            text = f"A program cannot call {known.name}: put the code, or the call, into the program itself."
            return failed("nested", text)
        if (undeclared := self._undeclared(known)) is not None:
            return undeclared
        if self._plan is not None and not known.reads:
            return {"value": {"planned": self._plan.add(known.name, request.arguments)}}
        answer = await self.make(known.name, request.arguments, known)
        if self._plan is not None:
            self._plan.read(known.name, request.arguments, answer)
        return answer

    def _undeclared(self, known: KnownTool) -> Mapping[str, Any] | None:
        if self._only is None or known.name in self._only:
            return None
        names = ", ".join(sorted(self._only))
        return failed("not_declared", f"The program does not declare the tool {known.name} (declared: {names}).")

    async def _answer_of(
        self, known: KnownTool, arguments: Mapping[str, Any], position: int, *, approved: bool
    ) -> Mapping[str, Any]:
        name, has_effects = known.name, not known.repeatable
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
            return failed(UNSURE, text, may_have_happened=True)
        call = earlier or await self._record.begin(name, arguments, has_effects=has_effects)
        began = time.perf_counter()
        made = ToolCall(name, arguments, str(position))
        result = await self._inner.call(self._ctx, made, approved=approved)
        self._counts.spend(time.perf_counter() - began)
        answer = plain_answer(result)
        if result.failure is not None and result.failure.reason == NOT_APPROVED and result.output == UNANSWERED:
            self.unapproved = result.text
            await self._record.forget(call)
            return answer
        await self._record.answered(call, answer, has_effects=has_effects)
        return answer
