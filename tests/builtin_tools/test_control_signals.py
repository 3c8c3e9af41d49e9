"""`replan` and `abort_attempt` only return a signal, which the loop acts on."""

import pytest

from builtin_tools.abort_attempt import abort_attempt
from builtin_tools.replan import replan
from engine.agent.calls import control_signal
from engine.contract.context import CallContext
from engine.contract.result import ToolResult


@pytest.mark.spec("TOOL-11")
async def test_replan_carries_the_reason_and_the_new_plan(ctx: CallContext) -> None:
    produced = await replan.run(ctx, {"reason": "the page is gone", "new_plan": "use the archive"})
    assert produced.value == {"signal": "replan", "reason": "the page is gone", "new_plan": "use the archive"}
    assert "use the archive" in produced.message
    assert produced.side_effects == ()


@pytest.mark.spec("TOOL-11")
async def test_abort_attempt_carries_what_was_learned(ctx: CallContext) -> None:
    produced = await abort_attempt.run(ctx, {"reason": "no permission", "learned": "the table exists"})
    assert produced.value == {"signal": "abort_attempt", "reason": "no permission", "learned": "the table exists"}
    assert "the table exists" in produced.message


@pytest.mark.spec("TOOL-11")
async def test_the_loop_understands_both_signals(ctx: CallContext) -> None:
    for tool, more in ((replan, {"new_plan": "b"}), (abort_attempt, {})):
        produced = await tool.run(ctx, {"reason": "a", **more})
        signal, text = control_signal(tool.spec.name, ToolResult(success=True, output=produced.value))
        assert (signal, text.split()[0]) == (tool.spec.name, "a")
