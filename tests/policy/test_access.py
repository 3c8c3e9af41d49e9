"""Permissions, modules, capabilities and bands restrict both the tools that are listed and those that can be called."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine import Engine
from engine.app.settings import Settings
from engine.contract.failure import FailureClass
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.policy.access import Access, tighter, why_not
from engine.policy.risk import RISK_ARGUMENTS, risk_of
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.dispatch.pipeline_fixture import open_pipeline

LEVELS = ["guest", "user", "admin", "owner"]
BANDS = ["GREEN", "AMBER", "RED"]


def spec(**fields: Any) -> ToolSpec:
    return ToolSpec(**{"name": "t", "description": "Does."} | fields)


@pytest.mark.spec("ACCESS-1")
@given(user=some.sampled_from([*LEVELS, "root", ""]), tool_level=some.sampled_from([*LEVELS, "wizard", ""]))
def test_a_permission_suffices_if_it_is_not_lower_than_required_and_unknown_levels_grant_nothing(
    user: Any, tool_level: Any
) -> None:
    has = LEVELS.index(user) if user in LEVELS else 0
    takes = LEVELS.index(tool_level) if tool_level in LEVELS else 3
    assert (why_not(spec(required_permission=tool_level), Turn(permission=user)) == "") == (has >= takes)


@pytest.mark.spec("ACCESS-2")
def test_the_personas_modules_are_checked_before_the_permission() -> None:
    tool_ = spec(name="mail.send", required_permission="admin")
    assert "module mail" in why_not(tool_, Turn(permission="guest", modules=frozenset({"calendar"})))
    assert "permission admin" in why_not(tool_, Turn(permission="guest", modules=frozenset({"mail"})))
    assert why_not(tool_, Turn(permission="owner", modules=frozenset({"mail"}))) == ""
    assert why_not(spec(name="search"), Turn(modules=frozenset())) == ""  # of no module


@pytest.mark.spec("ACCESS-5")
def test_missing_capabilities_are_named() -> None:
    tool_ = spec(caps_required=("net", "fs"))
    assert why_not(tool_, Turn(caps=frozenset({"fs"}))) == "the agent does not hold the required caps: net"
    assert why_not(tool_, Turn(caps=frozenset({"fs", "net", "gpu"}))) == ""


@pytest.mark.spec("ACCESS-5")
@given(
    one=some.sampled_from(BANDS),
    other=some.sampled_from(BANDS),
    safety=some.sampled_from(["LOW", "MEDIUM", "HIGH", "?"]),
)
def test_the_stricter_of_two_bands_applies(one: Any, other: Any, safety: Any) -> None:
    tool_ = spec(safety_class=safety)
    both = why_not(tool_, Turn(band=tighter(one, other)))
    assert (both == "") == (why_not(tool_, Turn(band=one)) == "" and why_not(tool_, Turn(band=other)) == "")


@pytest.mark.spec("ACCESS-5")
def test_an_unknown_band_permits_only_the_safest_tools() -> None:
    assert why_not(spec(safety_class="MEDIUM"), Turn(band="PURPLE"))  # type: ignore[arg-type]
    assert why_not(spec(), Turn(band="PURPLE")) == ""  # type: ignore[arg-type]


@tool(required_permission="admin", safety_class="HIGH")
async def wipe() -> str:
    """Wipe everything."""
    return "gone"


@tool()
async def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.spec("ACCESS-1", "ACCESS-2")
async def test_a_denied_tool_is_not_listed_and_a_call_of_it_is_fatal_and_runs_nothing(tmp_path: Path) -> None:
    sources = [StaticSource("mine", [wipe, look])]
    async with Engine.open(tmp_path, sources=sources, packs=False, environ={}) as engine:
        turn = Turn(permission="user")
        listed = await engine.list_tools(turn)
        assert [each.spec.name for each in listed.tools] == ["look"]
        assert [(each.name, "permission admin" in each.reason) for each in listed.dropped] == [("wipe", True)]
        result = await engine.call("wipe", {}, turn)
        assert result.failure is not None
        assert (result.failure.failure_class, result.failure.reason) == (FailureClass.FATAL, "denied")
        assert not result.failure.may_have_started
        assert (await engine.call("wipe", {}, Turn(permission="owner"))).output == "gone"


@pytest.mark.spec("ACCESS-5")
async def test_a_turn_cannot_loosen_the_configured_band(tmp_path: Path) -> None:
    settings = Settings.model_validate({"policy": {"band": "AMBER"}})
    sources = [StaticSource("mine", [wipe, look])]
    async with Engine.open(tmp_path, settings=settings, sources=sources, packs=False, environ={}) as engine:
        for turn in (None, Turn(band="GREEN")):
            assert "band is AMBER" in (await engine.call("wipe", {}, turn)).error
        assert (await engine.call("look", {})).success


async def test_a_permission_cannot_be_bypassed_with_an_alias(tmp_path: Path) -> None:
    @tool(required_permission="owner", aliases=("also",))
    async def secret() -> str:
        """Tell."""
        return "told"

    async with open_pipeline(tmp_path, [secret], guards=(Access(),)) as h:
        from engine.contract.result import ToolCall

        result = await h.pipeline.call(ToolCall("also", {}), Turn(permission="admin"))
        assert result.failure is not None
        assert result.failure.reason == "denied"


@pytest.mark.spec("ACCESS-9")
def test_the_risk_is_the_highest_of_class_annotations_effects_and_arguments() -> None:
    from engine.contract.spec import Annotations

    assert risk_of(spec(), {}) == "LOW"
    assert risk_of(spec(side_effects=("network",)), {}) == "MEDIUM"
    assert risk_of(spec(annotations=Annotations(destructive=True)), {}) == "MEDIUM"
    assert risk_of(spec(annotations=Annotations(requires_confirmation=True)), {}) == "HIGH"
    assert risk_of(spec(safety_class="HIGH"), {}) == "HIGH"
    by_action = spec(meta={RISK_ARGUMENTS: {"action": {"delete": "HIGH", "move": "MEDIUM"}}})
    assert [risk_of(by_action, {"action": action}) for action in ("list", "move", "delete")] == [
        "LOW",
        "MEDIUM",
        "HIGH",
    ]


@pytest.mark.spec("ACCESS-9")
async def test_the_audit_of_a_call_contains_its_risk(tmp_path: Path) -> None:
    async with open_pipeline(tmp_path, [wipe, look]) as h:
        assert (await h.call("wipe")).audit.risk == "HIGH"
        assert (await h.call("look")).audit.risk == "LOW"
