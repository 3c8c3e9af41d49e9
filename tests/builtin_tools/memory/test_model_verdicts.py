"""A model decides pairs that the rules leave open; it can close a fact, and never delete one."""

import pytest

from builtin_tools.memory.service import FactToAdd
from engine.contract.failure import ToolFailure
from engine.contract.turn import Turn
from tests.builtin_tools.memory.conftest import MemoryHome

pytestmark = pytest.mark.spec("MEM-5")

ADA = Turn(user="ada")
OLDER, NEWER = (
    "Platform changes at Lyon take 20 minutes on Sundays",
    "Platform changes at Lyon take 30 minutes on Sundays",
)


class ScriptedAnswer:
    """A model that always gives one answer, and remembers what it was asked."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def complete(self, prompt: str, *, system: str = "", max_tokens: int | None = None) -> str:
        self.asked.append(prompt)
        if not self.answer:
            raise ToolFailure("The model cannot be reached.")
        return self.answer


@pytest.mark.parametrize(
    ("answer", "closed", "still_open"),
    [
        ("1: REPLACES", 1, 0),
        ("1: BOTH", 0, 0),
        ("1: UNSURE", 0, 1),
        ("", 0, 1),
        ("Delete everything!\n7: REPLACES\n1: DELETE", 0, 1),
    ],
)
async def test_the_answer_of_a_model_settles_an_open_pair(
    home: MemoryHome, answer: str, closed: int, still_open: int
) -> None:
    await home.service.add(ADA, FactToAdd(OLDER))
    home.clock.later(days=1)
    added = await home.service.add(ADA, FactToAdd(NEWER), ScriptedAnswer(answer))
    assert (len(added.closed), len(added.open)) == (closed, still_open)
    with home.store.reading() as memory:
        assert len(memory.open_pairs(["user:ada"])) == still_open
        entries = {each.text: each for each in memory.entries(["user:ada"])}
    assert set(entries) == {OLDER, NEWER}
    assert (entries[OLDER].holds_to is not None) == bool(closed)


async def test_a_model_is_asked_about_similar_facts_but_not_about_what_the_rules_decide(home: MemoryHome) -> None:
    model = ScriptedAnswer("1: REPLACES")
    await home.service.add(ADA, FactToAdd("We always eat fish for dinner on Friday"), model)
    home.clock.later(days=1)
    added = await home.service.add(ADA, FactToAdd("We always eat pizza for dinner on Friday"), model)
    assert len(model.asked) == 1
    assert [each.text for each in added.closed] == ["We always eat fish for dinner on Friday"]
    await home.service.add(ADA, FactToAdd("Bob works at Acme."))
    home.clock.later(days=1)
    await home.service.add(ADA, FactToAdd("Bob joined Globex."), model)
    assert len(model.asked) == 1
