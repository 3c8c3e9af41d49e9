"""The active list of a turn: its order, availability, shadowing, and failing sources."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.spec import Origin, ToolSpec
from engine.contract.turn import Turn
from engine.turn.active_list import append_acquired, register_composed_skills, reserved_names
from engine.turn.assembly import Offered, active_list
from engine.turn.availability import Dropped, why_not

SEES = frozenset({"vision"})


@dataclass(frozen=True)
class Named:
    spec: ToolSpec

    async def run(self, ctx, arguments):
        return self.spec.name


def made(name, origin=Origin.STATIC, **options):
    return Named(ToolSpec(name, f"What {name} does.", origin=origin, **options))


@dataclass
class Source:
    name: str
    offered: tuple
    asked: list

    async def tools(self, turn):
        self.asked.append(turn)
        return self.offered

    async def find(self, name):
        return None


def source(name, *tools):
    return Source(name, tools, [])


def names(listed):
    return [each.spec.name for each in listed.tools]


BUILT_IN = source(
    "built-in",
    made("file_system"),
    made("execute", aliases=("run_code",)),
    made("vision_analysis", features=("vision",)),
    made("image_generation", requires=("image_client",)),
    made("postgres_admin", requires=("postgres_dsn",)),
)
SKILLS = source(
    "skills",
    made("zip_files", Origin.ACQUIRED),
    made("a_skill", Origin.ACQUIRED),
    made("execute", Origin.ACQUIRED),
    made("run_code", Origin.ACQUIRED),
    made("vision_analysis", Origin.ACQUIRED),
    made("daily_report", Origin.COMPOSED),
)


@pytest.mark.spec("LIST-0", "LIST-1", "LIST-5")
async def test_static_tools_come_first_then_skills_then_composed_skills_each_by_name():
    listed = await active_list([SKILLS, BUILT_IN], Turn())
    assert names(listed) == ["execute", "file_system", "a_skill", "zip_files", "daily_report"]


@pytest.mark.spec("LIST-2")
async def test_vision_and_image_tools_are_listed_only_if_they_are_available():
    assert "vision_analysis" in names(await active_list([BUILT_IN], Turn(features=SEES)))
    assert "vision_analysis" not in names(await active_list([BUILT_IN], Turn()))
    assert "image_generation" in names(await active_list([BUILT_IN], Turn(), frozenset({"image_client"})))
    assert "image_generation" not in names(await active_list([BUILT_IN], Turn()))


@pytest.mark.spec("LIST-6")
async def test_dropped_tools_are_reported_with_the_reason():
    listed = await active_list([BUILT_IN, SKILLS], Turn())
    assert Dropped("postgres_admin", "not configured: postgres_dsn") in listed.dropped
    assert Dropped("image_generation", "not configured: image_client") in listed.dropped
    assert Dropped("vision_analysis", "the model has no vision") in listed.dropped
    assert Dropped("execute", "its name shadows a static tool; rename the acquired skill") in listed.dropped
    assert [each.name for each in listed.dropped] == sorted(each.name for each in listed.dropped)


@pytest.mark.spec("LIST-5")
async def test_a_skill_cannot_shadow_a_name_an_alias_or_an_unlisted_built_in_tool():
    listed = await active_list([SKILLS, BUILT_IN], Turn())
    by_name = {each.spec.name: each.spec.origin for each in listed.tools}
    assert by_name["execute"] is Origin.STATIC
    assert "run_code" not in by_name
    assert "vision_analysis" not in by_name


@pytest.mark.spec("LIST-5")
def test_composed_skills_are_appended_after_skills_and_names_stay_unique():
    offered = tuple(
        made(name, origin)
        for name, origin in [
            ("b", Origin.COMPOSED),
            ("a", Origin.COMPOSED),
            ("skill", Origin.COMPOSED),
            ("static", Origin.COMPOSED),
            ("skill", Origin.ACQUIRED),
            ("static", Origin.STATIC),
        ]
    )
    parts = Offered.of(offered)
    reserved = reserved_names(parts.static)
    active, dropped = append_acquired([made("static")], parts.acquired, reserved)
    assert dropped == []
    listed, _ = register_composed_skills(active, parts.composed, reserved)
    assert [each.spec.name for each in listed] == ["static", "skill", "a", "b"]


@pytest.mark.spec("LIST-3", "LIST-4")
async def test_every_source_receives_the_query_and_decides_what_it_offers():
    for turn in (Turn(query="roman numbers"), Turn(query=None)):
        SKILLS.asked.clear()
        await active_list([SKILLS], turn)
        assert SKILLS.asked == [turn]


@pytest.mark.spec("LIST-0")
@given(
    st.randoms(), st.lists(st.sampled_from("abcdefgh"), max_size=8), st.lists(st.sampled_from("abcdefgh"), max_size=8)
)
def test_names_are_unique_and_the_order_does_not_depend_on_the_sources(random, static, acquired):
    tools = [made(each) for each in static] + [made(each, Origin.ACQUIRED) for each in acquired]
    shuffled = random.sample(tools, len(tools))
    first = asyncio.run(active_list([source("s", *tools)], Turn()))
    second = asyncio.run(active_list([source("s", *shuffled)], Turn()))
    assert names(first) == names(second) == [*sorted(set(static)), *sorted(set(acquired) - set(static))]
    assert repr([each.spec for each in first.tools]) == repr([each.spec for each in second.tools])


class Failing:
    name = "failing"

    async def tools(self, turn):
        raise ConnectionRefusedError("store is down")

    async def find(self, name):
        return None


class Hanging(Failing):
    name = "hanging"

    async def tools(self, turn):
        await asyncio.Event().wait()


@pytest.mark.spec("LIST-0")
async def test_a_source_that_fails_or_hangs_is_reported_and_the_others_are_used(caplog):
    listed = await active_list([Failing(), BUILT_IN, Hanging()], Turn(), timeout_s=0.05)
    assert names(listed) == ["execute", "file_system"]
    assert [(each.source, each.reason) for each in listed.failed] == [
        ("failing", "ConnectionRefusedError: store is down"),
        ("hanging", "no answer within 0.05 s"),
    ]
    assert "store is down" in caplog.text


async def test_deferred_tools_are_omitted_only_on_request():
    later = source("later", made("rare", defer_loading=True))
    assert names(await active_list([later], Turn())) == ["rare"]
    listed = await active_list([later], Turn(include_deferred_tools=False))
    assert names(listed) == []
    assert listed.dropped[0].name == "rare"


def test_a_tool_without_requirements_is_always_available():
    spec = ToolSpec("plain", "Plain.")
    assert why_not(spec, Turn(), frozenset()) == ""
    assert why_not(replace(spec, requires=("a", "b")), Turn(), frozenset({"a"})) == "not configured: b"
