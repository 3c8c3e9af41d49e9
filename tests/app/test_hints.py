"""Hints for a model name only tools of its turn and do not contradict each other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app import sandboxes
from engine.app.sandboxes import LOOK_AGAIN_S
from engine.app.settings import Settings
from engine.contract.allowed import Allowed
from engine.contract.failure import FailureClass
from engine.contract.turn import Turn
from engine.recovery.advise import without_fatal_advice
from sandbox.contract import Job, OnOutput, Outcome, Protections, SandboxError
from tests.dispatch.pipeline_fixture import ManualClock

WITHOUT_ENGINE: dict[str, Any] = {"sandbox": "docker", "docker": {"url": "unix:///nowhere/docker.sock"}}
NEEDS_A_BOX = {"execute", "kernels", "create_skill", "compose_skill"}


@pytest.mark.spec("LIST-6", "BOX-9", "CALL-4")
async def test_without_a_docker_engine_no_tool_that_needs_one_is_listed_or_suggested(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings.model_validate(WITHOUT_ENGINE)
    async with Engine.open(tmp_path, settings=settings, environ={}) as engine:
        listed = await engine.list_tools()
        names = {tool.spec.name for tool in listed.tools}
        assert not names & NEEDS_A_BOX
        assert {"file_system", "replan"} <= names
        dropped = {each.name: each.reason for each in listed.dropped}
        assert {dropped[name] for name in NEEDS_A_BOX} == {"not configured: sandbox"}
        wrong = await engine.call("excute", {})
        assert "Nearest: " in wrong.error
        assert "execute" not in wrong.error
        called = await engine.call("execute", {"language": "python", "code": "1"})  # it can still be called by name
        assert called.failure is not None
        assert called.failure.reason == "sandbox_unavailable"
        assert "No Docker Engine answered" in called.error
    assert "Tools that need the sandbox are not listed: No Docker Engine answered" in caplog.text


class LateSandbox:
    """A sandbox whose service may be started later."""

    name = "late"

    def __init__(self) -> None:
        self.started = False
        self.checks = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def ready(self) -> None:
        self.checks += 1
        await self.answers.wait()
        if not self.started:
            raise SandboxError("The service does not answer.")

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        raise NotImplementedError

    async def report(self) -> Protections:
        return Protections(self.name, ())

    async def aclose(self) -> None:
        """Nothing needs to be closed."""


async def lists_execute(engine: Engine) -> bool:
    return "execute" in {tool.spec.name for tool in (await engine.list_tools()).tools}


@pytest.mark.spec("LIST-6", "BOX-9")
async def test_a_sandbox_that_starts_later_adds_its_tools_and_is_rarely_checked(tmp_path: Path) -> None:
    box, clock = LateSandbox(), ManualClock()
    async with Engine.open(tmp_path, sandbox=box, clock=clock, environ={}) as engine:
        assert not await lists_execute(engine)
        box.started = True
        clock.seconds += LOOK_AGAIN_S - 1
        assert not await lists_execute(engine)
        assert box.checks == 1
        clock.seconds += 1
        assert await lists_execute(engine)
        clock.seconds += LOOK_AGAIN_S
        assert await lists_execute(engine)
        assert box.checks == 2
        assert "execute" in (await engine.call("excute", {})).error


@pytest.mark.spec("LIST-6")
async def test_an_unresponsive_sandbox_delays_neither_lists_nor_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxes, "WAIT_S", 0.01)
    box, clock = LateSandbox(), ManualClock()
    async with Engine.open(tmp_path, sandbox=box, clock=clock, environ={}) as engine:
        box.answers.clear()
        for _ in range(3):
            clock.seconds += LOOK_AGAIN_S
            assert not await lists_execute(engine)
        assert box.checks == 2  # when the engine opened, and the check that still waits


@pytest.mark.spec("CALL-4", "LIST-2")
async def test_suggested_names_are_tools_of_the_turn(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, environ={}) as engine:
        assert "image_generation" not in (await engine.call("image_generatio", {})).error
        bounded = Turn(allowed=Allowed.of(["replan", "scratchpad"]))
        near = (await engine.call("scratch", {}, bounded)).error.partition("Nearest: ")[2]
        assert near == "scratchpad, replan."
        searching = Turn(use_tool_search_flow=True)
        assert "scratchpad" in (await engine.call("scratchpads", {}, searching)).error
        assert "search_tools" not in (await engine.call("search_tool", {}, Turn())).error


@pytest.mark.spec("FAIL-3", "FAIL-6")
async def test_advice_suggests_another_tool_or_forbids_a_workaround_but_never_both(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, environ={}) as engine:
        missing = await engine.call("vision_analysis", {"path": "a.png"})
        assert missing.failure is not None
        assert missing.failure.failure_class is FailureClass.FATAL
        assert "Do not repeat this call." in missing.error
        assert "Instead, you can use:\n- `execute`" in missing.error
        assert "way around" not in missing.error
        denied = await engine.call("execute", {"language": "python", "code": "1"}, Turn(permission="guest"))
        assert denied.error.endswith("do not look for a way around it: call `replan`.")
        assert "Instead" not in denied.error
        looking = Turn(allowed=Allowed.of(["vision_analysis"]))  # the turn has neither the alternative nor `replan`
        alone = await engine.call("vision_analysis", {"path": "a.png"}, looking)
        assert "`" not in alone.error.partition("\n")[2]
        assert alone.error.endswith("do not look for a way around it: say so in your answer.")


@pytest.mark.spec("FAIL-3")
@pytest.mark.parametrize("advice", ["Do not repeat this call.", "Do not repeat this call and so on: call `replan`."])
def test_an_error_can_be_shown_without_the_advice(advice: str) -> None:
    assert without_fatal_advice(f"No model.\n{advice}\n- more") == "No model.\n- more"
