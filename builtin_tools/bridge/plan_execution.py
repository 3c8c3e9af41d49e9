"""Plans: the changing calls of a program are collected instead of made, approved as one list, and then exactly these
calls are made, in this order.

No code runs between the approval and the last call: the list is what is carried out. What the program has read to make
the plan is read again first, and the lines that come after a reading that has changed fail.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from builtin_tools.bridge.planned_calls import PlannedCall, ProgramPlan
from builtin_tools.bridge.program_calls import ProgramCalls
from engine.contract.canonical import digest
from engine.contract.context import CallContext
from engine.contract.spec import ToolSpec
from engine.policy.approval import ApprovalGuard
from engine.policy.forms import Form, FormField, PersonForms

_MOST_SHOWN = 300  # characters of the answer of a line
_LEAVE_OUT = "leave_out"
_FORM_S = 300.0
"""The longest time to wait for a person to leave out lines, in seconds."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """What became of a line: its answer, or why it was not carried out."""

    line: PlannedCall
    text: str

    def __str__(self) -> str:
        return f"{self.line}: {self.text[:_MOST_SHOWN]}"


async def carry_out(ctx: CallContext, spec: ToolSpec, calls: ProgramCalls, plan: ProgramPlan) -> Sequence[LineResult]:
    """Ask a person for approval of the plan, and make its calls.

    Args:
        ctx: The context of the call of `execute`.
        spec: The spec of `execute`, which the person approves.
        calls: Makes the calls.
        plan: The plan.

    Raises:
        ToolFailure: The plan was not approved. Nothing was done.
    """
    with calls.waiting():
        left_out = await _left_out(ctx, plan)
    lines = [line for line in plan.lines if line.number not in left_out]
    results = {number: LineResult(plan.lines[number - 1], "left out") for number in left_out}
    if lines:
        shown = {"plan": [{"call": line.name, "arguments": line.arguments} for line in lines]}
        approval = ctx.need(ApprovalGuard)
        with calls.waiting():
            await approval.confirm(spec, shown, call_id=ctx.call_id, user=ctx.user)
        changed = await _first_changed(calls, plan)
        for line in lines:
            results[line.number] = await _line(calls, line, changed)
    return [results[number] for number in sorted(results)]


async def _left_out(ctx: CallContext, plan: ProgramPlan) -> set[int]:
    """Return the numbers of the lines that a person leaves out; none if nobody can be asked."""
    text = "\n".join(("The program wants to make these calls, in this order:", *map(str, plan.lines)))
    field_ = FormField(_LEAVE_OUT, "Lines to leave out", "numbers with commas, such as 2, 5; empty for none")
    answers = await ctx.need(PersonForms).fill(Form(text, [field_]), _FORM_S)
    words = answers.get(_LEAVE_OUT, "").replace(",", " ").split()
    numbers = {int(word) for word in words if word.isdecimal()}
    return numbers & {line.number for line in plan.lines}


async def _first_changed(calls: ProgramCalls, plan: ProgramPlan) -> tuple[int, str] | None:
    """Read everything again; return the position and the name of the first reading that differs."""
    for position, reading in enumerate(plan.readings):
        answer = await calls.make(reading.name, reading.arguments)
        if digest(answer) != reading.answer:
            return position, reading.name
    return None


async def _line(calls: ProgramCalls, line: PlannedCall, changed: tuple[int, str] | None) -> LineResult:
    if changed is not None and changed[0] < line.readings:
        return LineResult(line, f"not done: what {changed[1]} returned has changed since the plan")
    answer = await calls.make(line.name, line.arguments, approved=True)
    if "failed" in answer:
        return LineResult(line, f"failed: {answer['failed']['message']}")
    value = answer.get("value")
    return LineResult(line, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
