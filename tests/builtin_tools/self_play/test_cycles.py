"""A cycle of self-play keeps what checks in boxes prove, and everything that it did can be undone."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bench.self_play.command import bench
from bench.self_play.learner import Proposed, check, question, right_answer
from builtin_tools.self_play.attempts import PlayLimits
from builtin_tools.self_play.changing import ChangedSince
from builtin_tools.self_play.checks import UnusableCheck, passes, validate
from builtin_tools.self_play.cycles import CycleState, Exercise, PlayChangeKind
from builtin_tools.self_play.store import PlayBusy
from engine.contract.turn import Turn
from tests.builtin_tools.self_play.conftest import PlayHome


@pytest.mark.spec("PLAY-1")
async def test_a_skill_that_the_check_proves_is_kept_and_used_by_the_next_run(home: PlayHome) -> None:
    cycle = await home.cycle()
    assert (cycle.state, cycle.solved) == (CycleState.KEPT, True), cycle.why
    assert cycle.change is not None
    assert (cycle.change.kind, cycle.change.what) == (PlayChangeKind.SKILL, "babaro")
    called = await home.call("babaro", text="abc")
    assert called.output == "cba3"
    assert [task.cycle for task in home.play.store.tasks("local")] == [1]


@pytest.mark.spec("PLAY-1")
async def test_a_skill_that_passes_its_own_tests_and_fails_the_check_is_taken_back(home: PlayHome) -> None:
    home.learner.script = [Proposed.SKILL, Proposed.WRONG_SKILL]
    await home.cycle()
    before = await home.stored()
    cycle = await home.cycle()
    assert (cycle.state, cycle.why) == (CycleState.ROLLED_BACK, "The change does not solve the task.")
    assert await home.stored() == before


@pytest.mark.spec("PLAY-2")
async def test_a_lesson_that_solves_its_task_and_harms_held_out_tasks_is_taken_back(home: PlayHome) -> None:
    home.learner.script = [Proposed.SKILL, Proposed.MISLEADING]
    await home.cycle()
    before = await home.stored()
    cycle = await home.cycle()
    assert cycle.state is CycleState.ROLLED_BACK
    assert (cycle.held_out.before, cycle.held_out.after, cycle.held_out.worse) == (1, 0, (1,))
    assert await home.stored() == before


@pytest.mark.spec("PLAY-2")
async def test_a_skill_that_does_what_another_does_is_dropped(home: PlayHome) -> None:
    home.learner.script = [Proposed.SKILL, Proposed.DUPLICATE_SKILL]
    await home.cycle()
    before = await home.stored()
    cycle = await home.cycle()
    assert cycle.state is CycleState.ROLLED_BACK
    assert "already returns the same results" in cycle.why
    assert await home.stored() == before


@pytest.mark.spec("PLAY-2")
async def test_a_known_lesson_is_merged_and_the_merge_can_be_undone(home: PlayHome) -> None:
    home.learner.script = [Proposed.LESSON, Proposed.DUPLICATE_LESSON]
    assert (await home.cycle()).state is CycleState.KEPT
    before = await home.stored()
    cycle = await home.cycle()
    assert (cycle.state, cycle.solved) == (CycleState.KEPT, False)
    assert cycle.change is not None
    assert cycle.change.merged
    book = home.play.parts.book
    assert [each.count for each in book.all({"user:local": ["personal:lessons"]}) if not each.draft] == [2]
    await home.play.undo(cycle.number)
    assert await home.stored() == before


@pytest.mark.spec("PLAY-2")
async def test_undoing_all_cycles_restores_what_the_stores_return_to_the_byte(home: PlayHome) -> None:
    await home.call("learn_skill", mistake="The report was sent twice.", fix="Ask before sending the report.")
    before = await home.stored()
    for _ in range(5):
        await home.cycle()
    assert await home.stored() != before
    undone = await home.play.undo_all()
    assert {each.state for each in undone} == {CycleState.UNDONE}
    assert await home.stored() == before
    assert home.play.store.tasks("local") == []
    assert (await home.call("babaro", text="abc")).success is False


@pytest.mark.spec("PLAY-2")
async def test_a_cycle_whose_skill_has_a_later_version_is_not_undone(home: PlayHome) -> None:
    cycle = await home.cycle()
    library = home.play.parts.library
    skill = await library.get("babaro")
    proposal = await library.proposal_of(skill)
    await library.create(replace(proposal, description="Returns another description.", provenance={}))
    before = await home.stored()
    with pytest.raises(ChangedSince, match="later version"):
        await home.play.undo(cycle.number)
    assert await home.stored() == before
    assert home.play.store.one(cycle.number).state is CycleState.KEPT


@pytest.mark.spec("PLAY-1")
async def test_attempts_see_only_skills_and_leave_no_trace_in_their_track_record(home: PlayHome) -> None:
    await home.cycle()
    library = home.play.parts.library
    assert await library.stats("babaro") == []
    attempts = [body for body in home.requests if "SELF-PLAY" not in str(body["messages"])]
    offered = {tool["function"]["name"] for body in attempts for tool in body.get("tools", ())}
    assert offered == {"babaro"}


@pytest.mark.spec("PLAY-1")
async def test_a_cycle_that_takes_too_long_is_rolled_back(home: PlayHome) -> None:
    before = await home.stored()
    home.play._limits = PlayLimits(wall_s=0.05)
    cycle = await home.cycle()
    assert cycle.state is CycleState.ROLLED_BACK
    assert "longer than 0.05 s" in cycle.why
    assert await home.stored() == before


@pytest.mark.spec("PLAY-1")
async def test_a_cycle_whose_tokens_are_used_up_is_rolled_back(home: PlayHome) -> None:
    home.play._limits = PlayLimits(tokens=300)
    cycle = await home.cycle()
    assert cycle.state is CycleState.ROLLED_BACK
    assert "300 tokens" in cycle.why


@pytest.mark.spec("PLAY-1")
async def test_a_cancelled_cycle_is_rolled_back_before_the_cancellation_is_raised(home: PlayHome) -> None:
    before = await home.stored()
    task = asyncio.create_task(home.cycle())
    while not home.learner.proposed:  # the change is being admitted
        await asyncio.sleep(0.01)
    with pytest.raises(PlayBusy):
        await home.cycle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert home.play.store.one(1).state is CycleState.ROLLED_BACK
    assert await home.stored() == before


@pytest.mark.spec("PLAY-1")
async def test_a_check_must_accept_the_right_answer_and_no_stub(home: PlayHome) -> None:
    box = home.engine.sandbox
    good = Exercise(question(0, "abc"), check(0, "abc"), right_answer(0, "abc"))
    await validate(box, good)
    assert await passes(box, good, "cba3")
    assert not await passes(box, good, "cba3, I am sure")
    lenient = Exercise(good.question, "def check(answer: str) -> bool:\n    return True\n", good.answer)
    with pytest.raises(UnusableCheck, match="answers nothing"):
        await validate(box, lenient)
    with pytest.raises(UnusableCheck, match="refuses the answer"):
        await validate(box, Exercise(good.question, good.check, "wrong"))
    with pytest.raises(UnusableCheck, match="refuses the answer"):
        await validate(box, Exercise(good.question, "def check(answer):\n    return 1\n", good.answer))
    broken = Exercise(good.question, "import sys\nsys.exit(0)\n", good.answer)
    with pytest.raises(UnusableCheck):
        await validate(box, broken)
    assert not await passes(box, broken, "cba3")


@pytest.mark.spec("PLAY-1")
async def test_a_task_with_a_lenient_check_is_not_used(home: PlayHome) -> None:
    lenient = {"question": question(0, "banana"), "check": "def check(answer):\n    return True\n", "answer": "x"}
    home.learner._task = lambda number: {  # type: ignore[method-assign]
        "practice": lenient,
        "exam": lenient | {"question": question(0, "cherry")},
    }
    cycle = await home.cycle()
    assert cycle.state is CycleState.NOTHING
    assert "answers nothing" in cycle.why
    assert home.learner.proposed == []


@pytest.mark.spec("PLAY-1")
async def test_a_trial_cannot_start_a_cycle_or_be_approved(home: PlayHome) -> None:
    for name in ("self_play", "self_play_loop"):
        result = await home.engine.call(name, {}, Turn(trial=True))
        assert not result.success


@pytest.mark.spec("PLAY-1", "TOOL-10")
async def test_the_tool_returns_the_cycle_and_what_was_kept(home: PlayHome) -> None:
    home.learner.script = [Proposed.LESSON]
    result = await home.call("self_play")
    assert result.success, result.error
    assert (result.output["cycle"], result.output["state"], result.output["solved"]) == (1, "kept", True)
    assert result.output["change"].startswith("lesson: Mistake (babaro)")
    assert result.side_effects == ("kept:cycle 1",)


@pytest.mark.spec("PLAY-2")
async def test_a_withdrawn_second_version_leaves_the_first_to_the_byte(home: PlayHome) -> None:
    await home.cycle()
    library = home.play.parts.library
    proposal = await library.proposal_of(await library.get("babaro"))
    before = await home.stored()
    second = replace(proposal, description="Returns another description.", provenance={"call": "self-play:9"})
    assert (await library.create(second)).version == 2
    assert (await home.call("babaro", text="abc")).success
    assert await library.withdraw("babaro", "another call") is False
    assert await library.withdraw("babaro", "self-play:9") is True
    assert await home.stored() == before
    assert (await home.call("babaro", text="abc")).output == "cba3"


@pytest.mark.slow
@pytest.mark.spec("PLAY-2")
def test_success_rises_and_nothing_harmful_is_kept_when_half_of_the_proposals_are_harmful(tmp_path: Path) -> None:
    row = bench(12, Console(quiet=True), tmp_path)[0]
    assert row["proposals"] == 12
    assert row["harmful_kept"] == 0
    assert row["success_before"] == row["success_undone"] == 0.0
    assert row["success_after"] > 0.7
    duplicates = sum(number for kind, number in row["kinds"].items() if kind.startswith("duplicate"))
    assert row["duplicates_merged"] + row["duplicates_dropped"] == duplicates >= 1
    assert row["undone_to_the_byte"]
    assert (tmp_path / "self-play.svg").is_file()
