"""A reply that only announces work is nudged once per run, and answers are not."""

from typing import Any

import pytest

from engine.agent.announcement import READ_CHARACTERS, announces_work
from engine.agent.budget import Budget, Finish
from engine.agent.events import Event, Nudged
from engine.agent.prompt.instructions import NUDGE
from engine.contract.spec import META_TOOL
from tests.agent.reply_examples import ANNOUNCEMENTS, ANSWERS, HELD_OUT_ANNOUNCEMENTS, HELD_OUT_ANSWERS
from tests.agent.scripted_model import Scripted, ScriptedModel, calls, says, serving
from tests.agent.test_loop import Bench, double, talking, tool

pytestmark = pytest.mark.spec("LOOP-4")

ANNOUNCED, ANSWERED = "I'll double it now.", "It is 42."
DOUBLE = calls(("double", {"x": 21}))


@pytest.mark.parametrize("reply", ANNOUNCEMENTS + HELD_OUT_ANNOUNCEMENTS)
def test_announcements_are_recognized(reply: str) -> None:
    assert announces_work(reply)


@pytest.mark.parametrize("reply", ANSWERS + HELD_OUT_ANSWERS)
def test_answers_are_not_mistaken_for_announcements(reply: str) -> None:
    assert not announces_work(reply)


def test_only_the_end_of_a_reply_is_read() -> None:
    assert announces_work("word " * READ_CHARACTERS + ". Let me check the logs.")
    assert not announces_work("Please answer. " + "word " * READ_CHARACTERS + ". It is 42.")
    assert not announces_work("")


async def run(*script: Scripted, host: Bench | None = None, **options: Any) -> tuple[ScriptedModel, Finish, str, int]:
    """Let a scripted model work on a message, and return it with how the run ended, its answer, and the nudges."""
    events: list[Event] = []
    bench = host or Bench(**tool("double", double))
    async with serving(*script) as model, talking(model, bench, on_event=events.append, **options) as conversation:
        report = await conversation.run("Double 21.")
    return model, report.finish, report.answer, sum(isinstance(each, Nudged) for each in events)


async def test_a_model_that_only_announces_work_is_told_to_do_it() -> None:
    model, finish, answer, nudges = await run(says(ANNOUNCED), DOUBLE, says(ANSWERED))
    assert (finish, answer, nudges) == (Finish.ANSWER, ANSWERED, 1)
    assert model.requests[1]["messages"][-2:] == [
        {"role": "assistant", "content": ANNOUNCED},
        {"role": "user", "content": NUDGE},
    ]


async def test_a_second_announcement_in_a_run_is_its_answer_and_the_next_run_is_nudged_again() -> None:
    async with serving(says(ANNOUNCED)) as model, talking(model, Bench(**tool("double", double))) as conversation:
        first = await conversation.run("Double 21.")
        assert (first.finish, first.answer, len(model.requests)) == (Finish.ANSWER, ANNOUNCED, 2)
        await conversation.run("Double 22.")
        assert len(model.requests) == 4


async def test_an_announcement_after_a_result_is_nudged_too() -> None:
    _, _, answer, nudges = await run(DOUBLE, says("Now let me verify the result."), DOUBLE, says(ANSWERED))
    assert (answer, nudges) == (ANSWERED, 1)


async def test_an_answer_is_not_nudged() -> None:
    model, _, answer, nudges = await run(DOUBLE, says(ANSWERED))
    assert (answer, nudges, len(model.requests)) == (ANSWERED, 0, 2)


async def test_a_reply_after_calls_of_meta_tools_only_is_not_nudged() -> None:
    async def list_lessons() -> str:
        return "1. Check the unit before you double a value."

    meta = tool("list_lessons", list_lessons, meta={META_TOOL: True})
    said = "One lesson: next I'll check the unit."
    both = Bench(**meta, **tool("double", double))
    assert (await run(calls(("list_lessons", {})), says(said), host=both))[2:] == (said, 0)
    mixed = calls(("list_lessons", {}), ("double", {"x": 1}))
    assert (await run(mixed, says(said), says(ANSWERED), host=both))[2:] == (ANSWERED, 1)


async def test_a_reply_that_could_not_have_made_a_call_is_not_nudged() -> None:
    assert (await run(says(ANNOUNCED), host=Bench()))[3] == 0  # no tools are offered
    assert (await run(says(ANNOUNCED), budget=Budget(turns=2)))[3] == 0  # the next turn may not call tools
    assert (await run(says(ANNOUNCED), budget=Budget(turns=1)))[3] == 0
    assert (await run(says(ANNOUNCED, tokens=60), budget=Budget(tokens=50)))[3] == 0
