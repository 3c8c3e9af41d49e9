"""Discovery finds and calls the same tools as a list, with the same rules and the same pipeline."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.contract.failure import FailureClass
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

NOTHING = "I will be there"  # not a request for any of the tools
FLOW = Turn(use_tool_search_flow=True, permission="user")


@tool()
async def convert_currency(amount: float, target: str) -> str:
    """Convert an amount of money into another currency."""
    return f"{amount} {target}"


@tool(defer_loading=True)
async def weather_forecast(city: str) -> str:
    """Say what the weather will be like in a city."""
    return f"sun in {city}"


@tool(required_permission="admin")
async def drop_database(name: str) -> str:
    """Delete a whole database with all its tables."""
    return "dropped"


@tool(requires=("image_client",))
async def paint(what: str) -> str:
    """Paint a picture."""
    return what


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    tools = [convert_currency, weather_forecast, drop_database, paint]
    async with Engine.open(tmp_path, sources=[StaticSource("mine", tools)], packs=False, environ={}) as opened:
        yield opened


async def found(engine: Engine, turn: Turn = FLOW, **arguments: Any) -> list[str]:
    result = await engine.call("search_tools", arguments, turn)
    assert result.success, result.error
    return [each["name"] for each in result.output]


@pytest.mark.spec("DISC-2")
async def test_the_tool_search_flow_offers_only_three_tools_which_other_turns_do_not_see(engine: Engine) -> None:
    assert [spec.name for spec in await engine.get_active_tool_definitions(FLOW)] == [
        "describe_tool",
        "execute_tool",
        "search_tools",
    ]
    assert not {"search_tools", "execute_tool"} & {spec.name for spec in await engine.get_active_tool_definitions()}


@pytest.mark.spec("DISC-1", "LIST-8")
async def test_tools_including_deferred_ones_are_found_by_what_they_do(engine: Engine) -> None:
    assert (await found(engine, query="exchange dollars to euros"))[0] == "convert_currency"
    assert (await found(engine, query="will it rain tomorrow"))[0] == "weather_forecast"
    assert await found(engine) == ["convert_currency", "weather_forecast"]
    assert len(await found(engine, query="money", limit=1)) == 1


@pytest.mark.spec("DISC-1")
async def test_only_tools_that_the_user_may_call_are_found_described_or_executed(engine: Engine) -> None:
    assert "drop_database" not in await found(engine, query="delete database tables")
    assert "paint" not in await found(engine, query="paint a picture")
    described = await engine.call("describe_tool", {"name": "drop_database"}, FLOW)
    assert "no tool 'drop_database' that you may call" in described.text
    executed = await engine.call("execute_tool", {"name": "drop_database", "tool_args": {"name": "x"}}, FLOW)
    assert executed.failure is not None
    assert executed.failure.reason == "denied"
    admin = Turn(use_tool_search_flow=True, permission="admin")
    assert "drop_database" in await found(engine, admin, query="delete database tables")


@pytest.mark.spec("DISC-1", "GATE-4")
async def test_a_search_says_when_nothing_fits_and_names_the_nearest_tools(engine: Engine) -> None:
    result = await engine.call("search_tools", {"query": NOTHING}, FLOW)
    assert result.output == []
    assert "Nothing fits: no tool is at least 15% likely to be useful." in result.text
    assert "Nearest: weather_forecast (" in result.text
    rated = await engine.rate_tools(NOTHING, FLOW)
    assert not rated.any_fits
    assert {one.name for one in rated.found} <= {"convert_currency", "weather_forecast"}
    rated = await engine.rate_tools("what will the weather be like in Rome", FLOW)
    assert rated.any_fits
    assert rated.found[0].name == "weather_forecast"
    assert rated.found[0].evidence["nearness"] > 0


@pytest.mark.spec("DISC-1")
async def test_a_tool_description_has_schema_and_annotations(engine: Engine) -> None:
    result = await engine.call("describe_tool", {"name": "convert_currency"}, FLOW)
    assert result.output["parameters"]["required"] == ["amount", "target"]
    assert result.output["annotations"]["destructive"] is False
    assert "Convert an amount" in result.output["description"]


@pytest.mark.spec("DISC-1")
async def test_execute_tool_calls_the_named_tool_with_its_own_audit_and_validation(engine: Engine) -> None:
    result = await engine.call("execute_tool", {"name": "weather_forecast", "tool_args": {"city": "Rome"}}, FLOW)
    assert (result.output, result.audit.tool, result.audit.attempts) == ("sun in Rome", "weather_forecast", 1)
    wrong = await engine.call("execute_tool", {"name": "weather_forecast", "tool_args": {"town": "Rome"}}, FLOW)
    assert "`city` is missing" in wrong.text
    unknown = await engine.call("execute_tool", {"name": "wether_forecast", "tool_args": {}}, FLOW)
    assert "Nearest: weather_forecast" in unknown.text


@pytest.mark.spec("DISC-1")
@pytest.mark.parametrize(
    "arguments", [{"name": "execute_tool", "tool_args": {"name": "x"}}, {}, {"name": 7}, {"name": "a", "tool_args": []}]
)
async def test_invalid_and_recursive_execute_tool_calls_are_answered_with_an_error(
    engine: Engine, arguments: dict[str, Any]
) -> None:
    result = await engine.call("execute_tool", arguments, FLOW)
    assert result.failure is not None
    assert result.failure.failure_class is FailureClass.DIAGNOSTIC


@pytest.mark.spec("ACCESS-10")
async def test_annotations_of_calls_are_logged_unless_the_turn_disables_it(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "weather" in record.getMessage():
                raise RuntimeError("the disk of the log is full")

    log = logging.getLogger("knackbox.annotations")
    broken = Broken()
    log.addHandler(broken)
    try:
        with caplog.at_level(logging.INFO, "knackbox.annotations"):
            await engine.call("convert_currency", {"amount": 1, "target": "EUR"})
            redirected = {"name": "convert_currency", "tool_args": {"amount": 2, "target": "EUR"}}
            assert (await engine.call("execute_tool", redirected, FLOW)).success
            assert (await engine.call("weather_forecast", {"city": "Rome"})).success
            await engine.call("convert_currency", {"amount": 1, "target": "EUR"}, Turn(log_tool_annotations=False))
    finally:
        log.removeHandler(broken)
    assert ["convert_currency" in line for line in caplog.messages] == [True, True]
    assert "destructive=False" in caplog.text
