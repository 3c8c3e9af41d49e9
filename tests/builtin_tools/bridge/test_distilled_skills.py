"""Programs of runs become skills: their recorded calls are the world of the tests, and later requests find them."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.lifecycle.library import SkillLibrary
from engine import Engine
from engine.agent.budget import Finish
from engine.agent.events import Report
from engine.app.conversation import open_conversation
from engine.app.settings import Settings
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.agent.scripted_model import Reply, ScriptedModel, calls, says, serving
from tests.builtin_tools.bridge.distilled_runs import CLIENT, FILES, RUNS, DistilledRun
from tests.remote.elsewhere import Asked, Elsewhere, answered, elsewhere, manifest_of, tool_of

PRICES = {"lamp": 30, "chair": 40, "sofa": 700}
DEGREES = {"Oslo": 4, "Rome": 15, "Bergen": 8, "Narvik": -4}
DISTIL = "Make a skill of the run "
WITHOUT_MUTANTS = {"mutants_killed": 0.0}
WEATHER = manifest_of(
    "weather",
    tool_of(
        "weather.now",
        parameters=[{"name": "city", "type": "string", "description": "Where.", "required": True}],
        annotations={"readOnlyHint": True},
    ),
)


class Prices:
    """The price list, which counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def source(self) -> StaticSource:
        @tool(annotations=Annotations(read_only=True))
        def price_of(product: str) -> int:
            """Return the price of a product."""
            self.asked += 1
            if product not in PRICES:
                text = f"{product} has no price."
                raise ToolFailure(text, failure_class=FailureClass.DIAGNOSTIC, reason="no_price")
            return PRICES[product]

        return StaticSource("prices", [price_of])


@dataclass
class ModelOfRuns:
    """A scripted model. It answers requests with programs, makes skills of runs, and uses the skills that it is offered.

    Attributes:
        corrected: What it sends after the refusal of the proposal of a run, by the id of the run.
        skills: The skills it has made, with the arguments by the values of the run.
    """

    runs: list[DistilledRun]
    corrected: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    skills: dict[str, Mapping[Any, Any]] = field(default_factory=dict)

    def __call__(self, body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        asked = max(at for at, each in enumerate(messages) if each["role"] == "user")
        text, results = _text(messages[asked]), [_text(each) for each in messages[asked:] if each["role"] == "tool"]
        if DISTIL in text:
            run = text.partition(DISTIL)[2].split()[0]
            if not results:
                return calls(("create_skill", {"from_run": run}))
            if len(results) == 1 and "not admitted" in results[0] and self.corrected.get(run):
                return calls(("create_skill", {"from_run": run, **self.corrected[run]}))
        elif not results:
            program = next((each.program for each in self.runs if each.request in text), None)
            if program is not None:
                return calls(("execute", {"language": "python", "code": CLIENT + program}))
            for offered in (each["function"] for each in body.get("tools", ())):
                if offered["name"] in self.skills:
                    return calls((offered["name"], self._arguments(offered)))
        return says("Done.")

    def _arguments(self, offered: dict[str, Any]) -> dict[str, Any]:
        """Choose the arguments as a model does, from what the descriptions of the parameters say."""
        known = self.skills[offered["name"]].items()
        properties = offered["parameters"]["properties"]
        return {
            name: new
            for name, each in properties.items()
            for old, new in known
            if f"Such as {old!r}." in each["description"]
        }


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


async def degrees(asked: Asked, writer: asyncio.StreamWriter) -> None:
    city = asked.json["arguments"]["city"]
    await answered({"tool_name": "weather.now", "success": True, "result": {"degrees": DEGREES[city]}})(asked, writer)


@dataclass
class World:
    """An engine with a scripted model, and everything outside that its tools reach."""

    engine: Engine
    model: ModelOfRuns
    prices: Prices
    module: Elsewhere

    @property
    def asked(self) -> tuple[int, int]:
        """How often the price list and the server of the module were asked."""
        return self.prices.asked, len(self.module.asked_for("/execute"))

    async def say(self, message: str) -> Report:
        async with open_conversation(self.engine) as conversation:
            report = await conversation.run(message)
        assert report.finish is Finish.ANSWER, report
        return report


@asynccontextmanager
async def world(home: Path, runs: list[DistilledRun], **skills: Any) -> AsyncIterator[World]:
    prices, script = Prices(), ModelOfRuns(runs)
    async with elsewhere(WEATHER) as module, serving(*[script] * 200) as model:
        module.execute = degrees
        async with opened(home, model, prices, module, skills) as engine:
            for name, text in FILES.items():
                await engine.call("file_system", {"action": "write", "path": name, "content": text})
            yield World(engine, script, prices, module)


@asynccontextmanager
async def opened(
    home: Path, model: ScriptedModel, prices: Prices, module: Elsewhere, skills: dict[str, Any]
) -> AsyncIterator[Engine]:
    values = {
        "model": {"name": "scripted", "base_url": model.base_url, "timeout_s": 60.0},
        "modules": {"module_services": {"weather": module.url}},
        "skills": skills,
    }
    async with Engine.open(
        home, settings=Settings.model_validate(values), sources=[prices.source()], environ={}
    ) as engine:
        yield engine


def successful(report: Report) -> list[Any]:
    """Return the calls of a run, which must all have succeeded."""
    assert all(each.result.success for each in report.calls), [each.result.text for each in report.calls]
    return [each.result for each in report.calls]


@pytest.mark.slow
@pytest.mark.spec("CODE-8")
@pytest.mark.timeout(1800)
async def test_at_least_seven_of_ten_runs_become_skills_that_later_requests_use(tmp_path: Path) -> None:
    used, at_once = [], 0
    async with world(tmp_path / "home", RUNS) as here:
        ids = []
        for each in RUNS:
            report = await here.say(each.request)
            successful(report)
            ids.append(report.run)
        here.model.corrected = {run: each.corrections for run, each in zip(ids, RUNS, strict=True)}
        for each, run in zip(RUNS, ids, strict=True):
            before = here.asked
            made = await here.say(f"{DISTIL}{run} please")
            assert here.asked == before  # admission called no real tool
            if not made.calls[-1].result.success:
                print(f"refused: {each.request}\n{made.calls[-1].result.text}\n")
                continue
            at_once += len(made.calls) == 1
            name = made.calls[-1].result.output["name"]
            here.model.skills = {name: each.arguments}
            later = await here.say(each.later)
            print(name, [(call.call.name, call.result.text[:200]) for call in later.calls])
            if [call.call.name for call in later.calls] == [name] and each.result in (
                later.calls[0].result.output,
                later.calls[0].result.message,
            ):
                used.append(name)
    print(f"{at_once} at once; used: {json.dumps(used)}")
    assert at_once >= 7
    assert len(used) >= 7


def price_run(product: str, pieces: int) -> DistilledRun:
    program = f"price = tools.price_of(product={product!r})\nresult = price * {pieces} + 5\nresult\n"
    return DistilledRun(f"How much is that, sent by post ({product})?", program, "", {}, None)


@pytest.mark.slow
@pytest.mark.spec("CODE-8")
async def test_literals_that_differ_between_runs_become_parameters_and_each_run_becomes_a_test(tmp_path: Path) -> None:
    runs = [price_run("lamp", 3), price_run("sofa", 4)]
    async with world(tmp_path / "home", runs, **WITHOUT_MUTANTS) as here:
        first = await here.say(runs[0].request)
        await here.say(runs[1].request)
        named = {"from_run": first.run, "name": "price_with_postage"}
        made = await here.engine.call("create_skill", named)
        assert made.success, made.text
        library = here.engine.need(SkillLibrary)
        skill = await library.get("price_with_postage")
        tests = (await library.tests(skill)).decode()
        assert list(skill.parameters["properties"]) == ["product", "number"]
        assert "product='sofa', number=4) == 2805" in tests
        assert skill.provenance["distilled_from"] == first.run
        assert skill.calls == ("price_of",)
        result = await here.engine.call("price_with_postage", {"product": "chair", "number": 2})
        assert result.output == 85
        failed = await here.engine.call("price_with_postage", {"product": "rug", "number": 2})
        assert not failed.success
        assert "rug has no price" in failed.text


@pytest.mark.slow
@pytest.mark.spec("CODE-8")
async def test_only_finished_programs_of_the_same_user_are_distilled(tmp_path: Path) -> None:
    fails = DistilledRun("Fail now", "tools.price_of(product='lamp')\n1 / 0\n", "", {}, None)
    plain = DistilledRun("Compute now", "6 * 7\n", "", {}, None)
    runs = [price_run("lamp", 3), fails, plain]
    async with world(tmp_path / "home", runs, **WITHOUT_MUTANTS) as here:
        ids = [(await here.say(each.request)).run for each in runs]
        others = await here.engine.call("create_skill", {"from_run": ids[0]}, Turn(user="mallory"))
        assert (others.success, others.failure and others.failure.reason) == (False, "not_distillable")
        assert "price_of" not in others.text
        for run, name in ((ids[1], ""), (ids[2], ""), ("no-such-run", ""), (ids[0], "no name(")):
            refused = await here.engine.call("create_skill", {"from_run": run, "name": name})
            assert refused.failure is not None
            assert refused.failure.reason == "not_distillable", refused.text


@pytest.mark.spec("CODE-8")
async def test_without_a_run_everything_else_must_be_given(tmp_path: Path) -> None:
    async with world(tmp_path / "home", []) as here:
        result = await here.engine.call("create_skill", {"name": "add_one", "description": "Add one to a number."})
    assert result.failure is not None
    assert result.failure.reason == "invalid_arguments"
    assert "`code` is missing" in result.text
