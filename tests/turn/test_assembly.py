"""The caches of an assembly are invisible: after any changes, its lists equal those built without caches."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.contract.allowed import Allowed
from engine.contract.spec import Annotations, Origin, ToolSpec
from engine.contract.turn import Turn
from engine.formats.openai import tools_to_openai_format
from engine.turn.assembly import Assembly, active_list
from engine.turn.availability import by_search_alone, deferred, enabled, permitted, stages_of, why_not

pytestmark = pytest.mark.spec("LIST-7")

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Named:
    spec: ToolSpec

    async def run(self, ctx: Any, arguments: Any) -> str:
        return self.spec.name


@dataclass
class Source:
    name: str
    offered: Any

    async def tools(self, turn: Turn) -> Any:
        return self.offered if turn.query is None else self.offered[:2]

    async def find(self, name: str) -> None:
        return None


TOOLS = some.builds(
    lambda name, **fields: Named(ToolSpec(name, "Does.", **fields)),
    name=some.sampled_from(["a", "b", "c", "d", "e", "m.a"]),
    origin=some.sampled_from(Origin),
    aliases=some.sampled_from([(), ("b",), ("e",)]),
    requires=some.sampled_from([(), (), ("dsn",)]),
    defer_loading=some.booleans(),
    category=some.sampled_from(["x", "discovery"]),
    required_permission=some.sampled_from(["guest", "admin"]),
    annotations=some.builds(Annotations, read_only=some.booleans()),
)
ANSWERS = some.one_of(some.lists(TOOLS, max_size=6).map(tuple), some.lists(TOOLS, max_size=6))
TURNS = some.builds(
    Turn,
    query=some.sampled_from([None, "one", "two"]),
    permission=some.sampled_from(["guest", "owner"]),
    include_deferred_tools=some.booleans(),
    use_tool_search_flow=some.booleans(),
    modules=some.sampled_from([None, frozenset(), frozenset({"m"})]),
    allowed=some.sampled_from([None, Allowed.of(["a", "m.*"]), Allowed(read_only=True, included=(Allowed.of("*"),))]),
)
# Changes between lists: a source answers differently (in place, if its answer is a list), or a tool is disabled.
STEPS = some.lists(
    some.tuples(some.integers(0, 2), ANSWERS, some.booleans(), TURNS, some.sampled_from("abcde")), max_size=8
)


@pytest.mark.slow
@given(some.lists(ANSWERS, min_size=3, max_size=3), STEPS, some.sampled_from([NOTHING, frozenset({"dsn"})]))
def test_cached_lists_equal_uncached_ones_after_any_changes(
    answers: list[Any], steps: list[Any], configured: frozenset[str]
) -> None:
    async def both() -> None:
        sources = [Source(f"s{number}", answer) for number, answer in enumerate(answers)]
        disabled: dict[str, str] = {}
        assembly = Assembly(configured, disabled=lambda: disabled)
        for number, answer, in_place, turn, name in steps:
            if in_place and isinstance(sources[number].offered, list):
                sources[number].offered[:] = answer
            elif in_place:
                disabled[name] = "noon"
            else:
                sources[number].offered = answer
            for _ in range(2):
                remembered = await assembly.active_list(sources, turn)
                fresh = await active_list(sources, turn, configured, disabled=lambda: disabled)
                assert remembered == fresh
                assert [id(each) for each in remembered.tools] == [id(each) for each in fresh.tools]
                specs = [each.spec for each in remembered.tools if "." not in each.spec.name]
                assert repr(tools_to_openai_format(specs)) == repr(
                    tools_to_openai_format([each.spec for each in fresh.tools if "." not in each.spec.name])
                )

    asyncio.run(both())


@given(some.lists(ANSWERS, min_size=2, max_size=2), TURNS)
def test_equal_tools_give_equal_bytes_even_as_different_objects(answers: list[Any], turn: Turn) -> None:
    async def listed(assembly: Assembly, copies: bool) -> str:
        given_ = [tuple(replace(each) if copies else each for each in answer) for answer in answers]
        sources = [Source(f"s{number}", answer) for number, answer in enumerate(given_)]
        found = await assembly.active_list(sources, turn)
        return repr([each.spec for each in found.tools]) + repr(found.dropped)

    async def both() -> None:
        assembly = Assembly()
        assert await listed(assembly, copies=False) == await listed(assembly, copies=True)

    asyncio.run(both())


async def test_caches_are_bounded_and_lists_stay_correct() -> None:
    assembly = Assembly()
    for number in range(300):
        source = Source("s", (Named(ToolSpec(f"t{number}", "Does.")),))
        found = await assembly.active_list([source], Turn(user=f"u{number}"))
        assert [each.spec.name for each in found.tools] == [f"t{number}"]
    assert len(assembly._splits) <= 64
    assert len(assembly._bases) <= 8
    for number in range(300):
        await assembly.active_list([source], Turn(user=f"u{number}"))
    assert all(len(base.by_turn) <= 64 for base in assembly._bases.values())


async def test_unchanged_static_tools_are_not_checked_again() -> None:
    class Counting(Named):
        asked = 0

        def __getattribute__(self, name: str) -> Any:
            if name == "spec":
                Counting.asked += 1
            return super().__getattribute__(name)

    source = Source("s", tuple(Counting(ToolSpec(f"t{number}", "Does.")) for number in range(50)))
    source.tools = lambda turn: asyncio.sleep(0, source.offered)  # type: ignore[method-assign]
    assembly = Assembly()
    await assembly.active_list([source], Turn(query="one"))
    Counting.asked = 0
    assert len((await assembly.active_list([source], Turn(query="two"))).tools) == 50
    assert Counting.asked == 0


@pytest.mark.spec("LIST-0", "LIST-8")
def test_each_stage_gives_a_reason_for_omitting_a_tool() -> None:
    spec = ToolSpec("t", "Does.", requires=("dsn",), defer_loading=True, required_permission="admin")
    flow = Turn(permission="user", include_deferred_tools=False, use_tool_search_flow=True)
    assert why_not(spec, flow, NOTHING) == "not configured: dsn"
    assert "permission admin" in permitted(spec, flow, NOTHING)
    assert deferred(spec, flow, NOTHING) == "deferred, found by discovery"
    assert by_search_alone(spec, flow, NOTHING) == "found by discovery"
    for stage in stages_of(flow):
        assert stage(ToolSpec("t", "Does.", category="discovery"), flow, NOTHING) == ""
    assert [stage(replace(spec, requires=()), Turn(), NOTHING) for stage in (deferred, by_search_alone)] == ["", ""]
    kept, off = enabled((Named(spec),), {"t": "noon"})
    assert (kept, [each.reason for each in off]) == ((), ["disabled since noon"])
