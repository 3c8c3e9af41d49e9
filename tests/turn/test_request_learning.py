"""Requests teach searches which tool they meant, for tools of all kinds (GATE-3)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.store.past_requests import PastRequests
from engine import Engine
from engine.contract.spec import RUNS_PROGRAMS, ToolSpec
from engine.contract.tool_requests import ToolRequests
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.turn.availability import BRIDGE
from engine.turn.discovery import Discovery
from engine.turn.discovery_tools import search_tools
from engine.turn.request_learning import RequestLearning
from tests.eventually import eventually
from tests.skills.parts import NoSandbox, opened_records

pytestmark = pytest.mark.spec("GATE-3")
REQUEST = "zwölf Boxkämpfer jagen Viktor"
ASKED = Turn(query=REQUEST, user="ada", use_tool_search_flow=True)
CLIENT = Turn(user="ada", agent="an MCP client", use_tool_search_flow=True)  # no query, as in a turn of an MCP client


@tool()
async def count_words(text: str) -> int:
    """Count the words of a text."""
    if not text:
        raise ValueError("There is no text.")
    return len(text.split())


@tool(defer_loading=True)
async def weather_forecast(city: str) -> str:
    """Say what the weather will be like in a city."""
    return f"sun in {city}"


@asynccontextmanager
async def opened(home: Path, **environ: str) -> AsyncIterator[Engine]:
    source = StaticSource("mine", [count_words, weather_forecast])
    async with Engine.open(home, sources=[source], sandbox=NoSandbox(), environ=environ) as engine:
        yield engine


def learned(home: Path) -> dict[str, tuple[str, ...]]:
    with opened_records(home) as records:
        return PastRequests(records).changed()


async def names_found(engine: Engine, query: str) -> list[str]:
    found = await engine.call("search_tools", {"query": query, "limit": 3}, CLIENT)
    return [each["name"] for each in found.output]


async def test_only_what_the_user_wrote_is_learned_of_a_longer_query(tmp_path: Path) -> None:
    longer = replace(ASKED, query=f"{REQUEST}\nMs Quintoblat lives in Elm Street.\ncount_words", request=REQUEST)
    async with opened(tmp_path) as engine:
        assert (await engine.call("count_words", {"text": "a b"}, longer)).success
        await eventually(lambda: learned(tmp_path) == {"count_words": (REQUEST,)})


async def test_a_tool_is_found_by_the_request_for_which_it_succeeded_also_by_other_processes(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        assert "count_words" not in await names_found(engine, REQUEST)
        assert (await engine.call("count_words", {"text": "a b"}, ASKED)).output == 2
        await eventually(lambda: learned(tmp_path) == {"count_words": (REQUEST,)})
        assert (await names_found(engine, f"{REQUEST}!"))[0] == "count_words"
    async with opened(tmp_path) as engine:
        assert (await names_found(engine, REQUEST))[0] == "count_words"
    async with opened(tmp_path, KNACKBOX_SKILLS_LEARN_REQUESTS="false") as engine:
        assert "count_words" not in await names_found(engine, REQUEST)


async def test_the_search_of_a_client_teaches_the_tool_that_it_found_and_the_client_called(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        assert "weather_forecast" in await names_found(engine, "will it rain in a city")
        called = {"name": "weather_forecast", "tool_args": {"city": "Rome"}}
        assert (await engine.call("execute_tool", called, CLIENT)).success
        await eventually(lambda: learned(tmp_path) == {"weather_forecast": ("will it rain in a city",)})


async def test_failed_calls_trials_and_lists_that_nobody_searches_teach_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        assert not (await engine.call("count_words", {"text": ""}, ASKED)).success
        assert not (await engine.call("count_words", {}, ASKED)).success
        trial = Turn(query="in a trial", use_tool_search_flow=True, trial=True)
        assert (await engine.call("count_words", {"text": "a"}, trial)).success
        assert (await engine.call("count_words", {"text": "a"}, Turn(query="with a whole list"))).success
    assert learned(tmp_path) == {}  # closing writes what waits


async def test_once_somebody_has_searched_turns_with_whole_lists_teach_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await names_found(engine, "anything")
        assert (await engine.call("count_words", {"text": "a"}, Turn(query="how long is it"))).success
    assert learned(tmp_path) == {"count_words": ("how long is it",)}


async def test_a_tool_that_every_list_has_is_not_learned(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await engine.call("search_tools", {"query": "words"}, ASKED)
        learning = RequestLearning(engine.need(ToolRequests), engine.need(Discovery), frozenset({BRIDGE}))
        assert learning.concerns(count_words.spec)
        assert not learning.concerns(search_tools.spec)
        assert not learning.concerns(ToolSpec("execute", "Runs code.", meta={RUNS_PROGRAMS: True}))
    assert learned(tmp_path) == {}
