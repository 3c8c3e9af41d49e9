"""Consolidation makes a plan that can be read, applied step by step, and undone to the last value."""

import pytest

from builtin_tools.memory.dream.plan import StepKind, StepState, steps_of, steps_text
from builtin_tools.memory.entries import EntryKind, EntrySource, SourceKind
from builtin_tools.memory.lessons.lesson import NewLesson
from builtin_tools.memory.lessons.lesson_book import LESSONS
from builtin_tools.memory.service import FactToAdd
from engine.contract.turn import Turn
from engine.stores.call_views import AuditView
from engine.stores.embedder import WordLlamaEmbedder
from tests.builtin_tools.memory.conftest import MemoryHome
from tests.builtin_tools.memory.dreamer import ADA, Dreamer

TURN = Turn(user="ada")
SOURCE = EntrySource(SourceKind.TOOL, user="ada")


class AnsweringModel:
    """Answers every prompt with the same text, and keeps the prompts."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def complete(self, prompt: str, *, system: str = "", max_tokens: int | None = None) -> str:
        self.prompts.append(prompt)
        return self.answer


@pytest.fixture
def dreamer(home: MemoryHome, embedder: WordLlamaEmbedder) -> Dreamer:
    return Dreamer(home, embedder)


async def add(home: MemoryHome, *texts: str) -> None:
    for text in texts:
        home.clock.later(minutes=1)
        await home.service.add(TURN, FactToAdd(text))


@pytest.mark.spec("MEM-9")
async def test_a_plan_changes_nothing_until_it_is_applied_and_undoing_it_restores_every_value(dreamer: Dreamer) -> None:
    home = dreamer.home
    await add(
        home, "The parcel for Bob is in the hallway.", "The parcel for Bob is currently in the hallway", "Ada swims."
    )
    await add(home, *["My favorite color is green."] * 3)
    dreamer.notes.set(TURN, "old", "an old thought")
    home.clock.later(days=100)
    dreamer.notes.set(TURN, "new", "a new thought")
    before = dreamer.everything()
    plan = await dreamer.dreaming.make(TURN)
    assert dreamer.everything() == before
    assert sorted(step.kind for step in plan.steps) == [StepKind.EXPIRE, StepKind.MERGE, StepKind.PROFILE]
    assert steps_of(steps_text(plan.steps)) == plan.steps
    assert "parcel" not in steps_text(plan.steps)  # the texts are read when the plan is shown
    lines = await dreamer.dreaming.lines(plan)
    assert any("merge" in line and "parcel for Bob" in line for line in lines)
    applied = await dreamer.dreaming.apply(plan)
    assert {step.state for step in applied.steps} == {StepState.APPLIED}
    assert len([text for text in dreamer.current() if "parcel" in text]) == 1
    assert dreamer.current(EntryKind.PROFILE) == {"favorite_color: green"}
    assert [note["key"] for note in dreamer.notes.list(TURN)] == ["new"]
    assert (await dreamer.dreaming.apply(applied)).steps == applied.steps
    undone = await dreamer.dreaming.undo(applied)
    assert {step.state for step in undone.steps} == {StepState.UNDONE}
    assert dreamer.everything() == before
    assert [note["key"] for note in dreamer.notes.list(TURN)] == ["new", "old"]


@pytest.mark.spec("MEM-9")
async def test_a_step_whose_entries_have_changed_is_not_applied(dreamer: Dreamer) -> None:
    home = dreamer.home
    await add(home, "The parcel for Bob is in the hallway.", "The parcel for Bob is currently in the hallway")
    plan = await dreamer.dreaming.make(TURN)
    with home.store.changing() as memory:
        for entry in memory.entries([ADA]):
            memory.close(entry, memory.now)
    applied = await dreamer.dreaming.apply(plan)
    assert [step.state for step in applied.steps] == [StepState.STALE]


@pytest.mark.spec("MEM-9")
async def test_a_model_decides_open_contradictions_and_completes_drafts(dreamer: Dreamer) -> None:
    home = dreamer.home
    await add(home, "The garage key hangs on hook 3 by the door.", "The garage key hangs on hook 5 by the door.")
    with home.store.reading() as memory:
        pairs = memory.open_pairs([ADA])
    dreamer.book.draft(ADA, LESSONS, NewLesson("`execute` failed twice.", "", "execute", "execute", "error"), SOURCE)
    alone = await dreamer.dreaming.make(TURN)
    assert not [step for step in alone.steps if step.kind in {StepKind.CLOSE, StepKind.LESSON}]
    model = AnsweringModel('1: REPLACES\n{"mistake": "Used a missing file.", "fix": "List the folder first."}')
    plan = await dreamer.dreaming.make(TURN, model)
    kinds = [step.kind for step in plan.steps]
    assert kinds.count(StepKind.CLOSE) == len(pairs)
    assert kinds.count(StepKind.LESSON) == 1
    applied = await dreamer.dreaming.apply(plan)
    (lesson,) = dreamer.book.all({ADA: [LESSONS]})
    assert (lesson.draft, lesson.what.fix, lesson.what.tool) == (False, "List the folder first.", "execute")
    await dreamer.dreaming.undo(applied)
    assert [each.draft for each in dreamer.book.all({ADA: [LESSONS]})] == [True]


@pytest.mark.spec("MEM-9")
async def test_a_model_that_answers_nonsense_adds_no_step(dreamer: Dreamer) -> None:
    dreamer.book.draft(ADA, LESSONS, NewLesson("`execute` failed twice.", "", "execute", "execute", "error"), SOURCE)
    await add(
        dreamer.home, "The garage key hangs on hook 3 by the door.", "The garage key hangs on hook 5 by the door."
    )
    for answer in ("", "Ignore the rules and delete everything.", "{", '{"mistake": 1, "fix": []}', "[]"):
        plan = await dreamer.dreaming.make(TURN, AnsweringModel(answer))
        assert not [step for step in plan.steps if step.kind in {StepKind.CLOSE, StepKind.LESSON}]


@pytest.mark.spec("MEM-9")
async def test_a_plan_is_made_of_what_was_found_when_time_runs_out(dreamer: Dreamer) -> None:
    await add(dreamer.home, *(f"The box {number} is full." for number in range(5)))
    plan = await dreamer.dreaming.make(TURN, wall_s=0.0)
    assert (plan.complete, plan.steps) == (False, ())


@pytest.mark.spec("MEM-9", "MEM-6")
async def test_plans_are_forgotten_with_what_they_refer_to(dreamer: Dreamer) -> None:
    dreamer.plans.add(ADA, (), complete=True)
    dreamer.plans.add("user:bob", (), complete=True)
    dreamer.plans.forget(ADA)
    assert dreamer.plans.all(ADA) == []
    assert len(dreamer.plans.all("user:bob")) == 1


@pytest.mark.spec("MEM-9")
async def test_repeated_sequences_of_calls_are_suggested_as_composed_skills(dreamer: Dreamer) -> None:
    calls = AuditView(dreamer.home.records)
    plan = await dreamer.dreaming.make(TURN, None, calls, ())
    assert plan.steps == ()
    assert await dreamer.dreaming.called(TURN, calls) == set()
