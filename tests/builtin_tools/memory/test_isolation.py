"""One user's memory never reaches another, and an agent stays within its spaces."""

import pytest

from builtin_tools.memory.entries import Entry
from builtin_tools.memory.recall import RecallRequest
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.service import FactToAdd
from engine.contract.failure import ToolFailure
from engine.contract.ports import BoundedMemory
from engine.contract.turn import Turn
from tests.builtin_tools.memory.conftest import MemoryHome

ADA, BOB = Turn(user="ada"), Turn(user="bob")
SECRET = "Ada's locker code is 4711."

pytestmark = pytest.mark.spec("MEM-1")


async def told(home: MemoryHome) -> Entry:
    return (await home.service.add(ADA, FactToAdd(SECRET, "personal:general"))).entry


async def seen(home: MemoryHome, turn: Turn, **more) -> list[str]:
    found = await home.service.recall(turn, RecallRequest(more.pop("text", "locker code"), **more))
    return [each.text for hit in found.hits for each in (hit.entry, *hit.contradicts, *hit.around)]


async def test_the_owner_finds_it(home: MemoryHome) -> None:
    await told(home)
    assert await seen(home, ADA) == [SECRET]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"text": ""},
        {"spaces": ["personal:general"]},
        {"spaces": ["*"]},
        {"spaces": ["user:ada"]},
        {"history": True},
        {"when": "today"},
        {"document": ""},
    ],
)
async def test_another_user_does_not_find_it(home: MemoryHome, more: dict) -> None:
    await told(home)
    await home.service.add(BOB, FactToAdd("Bob's bicycle is green."))
    assert SECRET not in await seen(home, BOB, **more)


@pytest.mark.parametrize(
    "user", ["", "Ada", "ada ", "ada\x00", "user:ada", "../ada", "ada:main", "a*", "%", "shared:household"]
)
async def test_a_user_of_a_similar_name_does_not_find_it(home: MemoryHome, user: str) -> None:
    await told(home)
    assert await seen(home, Turn(user=user)) == []
    assert await seen(home, Turn(user=user), text="") == []


async def test_another_user_cannot_read_it_by_id(home: MemoryHome) -> None:
    entry = await told(home)
    assert await home.service.history(BOB, entry.id) == []
    assert await home.service.entries(BOB) == []
    assert await home.service.list_documents(BOB) == []


async def test_another_user_cannot_forget_it(home: MemoryHome) -> None:
    entry = await told(home)
    for more in ({"ids": [entry.id]}, {"query": "locker"}, {"query": SECRET}, {"document": entry.id}, {}):
        preview = await home.service.preview(BOB, **more)
        assert (preview.entries, preview.documents) == ((), ())
    assert not await home.service.port(BOB).forget(entry.id, "personal:general")
    assert await seen(home, ADA) == [SECRET]


async def test_a_statement_of_another_user_closes_nothing(home: MemoryHome) -> None:
    await told(home)
    added = await home.service.add(BOB, FactToAdd("Ada's locker code is 1234.", "personal:general"))
    assert added.closed == ()
    assert await seen(home, ADA) == [SECRET]


async def test_the_port_belongs_to_the_user_of_the_turn(home: MemoryHome) -> None:
    await told(home)
    assert await home.service.port(BOB).recall("locker code") == []
    assert [each.text for each in await home.service.port(ADA).recall("locker code")] == [SECRET]


@pytest.mark.parametrize(
    "space", ["user:ada", "personal:", "personal:a/b", "../x", "general", "shared:*", "personal:a\n"]
)
async def test_a_name_that_is_no_space_is_refused(home: MemoryHome, space: str) -> None:
    with pytest.raises(ToolFailure, match="is not a memory space"):
        await home.service.add(BOB, FactToAdd("x", space))


async def test_a_shared_space_is_seen_by_the_agents_that_may_see_it(home: MemoryHome) -> None:
    await home.service.add(ADA, FactToAdd("The wifi password is hunter2.", "shared:household"))
    assert await seen(home, BOB, text="wifi password") == ["The wifi password is hunter2."]
    for globs in ((), ("personal:*",), ("shared:office",), ("shared:house",)):
        narrow = Turn(user="bob", memory_spaces=globs)
        assert await seen(home, narrow, text="wifi password") == []
        assert await seen(home, narrow, text="wifi password", spaces=["shared:household"]) == []


async def test_an_agent_writes_only_to_its_spaces(home: MemoryHome) -> None:
    narrow = Turn(user="ada", memory_spaces=("personal:work",))
    with pytest.raises(ToolFailure, match="may not use the memory space"):
        await home.service.add(narrow, FactToAdd("x", "personal:general"))
    assert (await home.service.add(narrow, FactToAdd("Ada likes tea."))).entry.space == "personal:work"
    bounded = BoundedMemory(home.service.port(narrow), ("personal:work",))
    with pytest.raises(ToolFailure, match="may not use the memory space"):
        await bounded.remember("x", "shared:household")
    assert MemoryScope.of(narrow).default_space() == "personal:work"


async def test_an_agent_cannot_read_or_forget_what_is_outside_its_spaces(home: MemoryHome) -> None:
    entry = await told(home)
    narrow = Turn(user="ada", memory_spaces=("personal:work",))
    assert await seen(home, narrow) == []
    assert await home.service.history(narrow, entry.id) == []
    assert (await home.service.preview(narrow, ids=[entry.id])).entries == ()
