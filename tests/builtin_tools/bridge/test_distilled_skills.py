"""Programs of runs become skills: their recorded calls are the world of the tests, and later requests find them."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.agent.budget import Finish
from engine.app.conversation import open_conversation
from engine.app.settings import Settings
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.agent.scripted_model import Reply, ScriptedModel, calls, says, serving
from tests.builtin_tools.bridge.distilled_runs import CLIENT, FILES, RUNS, DistilledRun
from tests.remote.elsewhere import Asked, Elsewhere, answered, elsewhere, manifest_of, tool_of

PRICES = {"lamp": 30, "chair": 40, "sofa": 700}
DEGREES = {"Oslo": 4, "Rome": 15, "Bergen": 8, "Narvik": -4}
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


class Requests:
    """A scripted model: it runs the program that belongs to the last message, and then answers."""

    def __init__(self, programs: dict[str, str]) -> None:
        self._programs = programs

    def __call__(self, body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return says("Done.")
        text = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
        program = next(code for request, code in self._programs.items() if request in text)
        return calls(("execute", {"language": "python", "code": CLIENT + program}))


async def degrees(asked: Asked, writer: Any) -> None:
    city = asked.json["arguments"]["city"]
    await answered({"tool_name": "weather.now", "success": True, "result": {"degrees": DEGREES[city]}})(asked, writer)


@asynccontextmanager
async def opened(
    home: Path, model: ScriptedModel, prices: Prices, module: Elsewhere, **skills: Any
) -> AsyncIterator[Engine]:
    settings = Settings.model_validate(
        {
            "model": {"name": "scripted", "base_url": model.base_url, "timeout_s": 30.0},
            "modules": {"module_services": {"weather": module.url}},
            "skills": skills,
        }
    )
    async with Engine.open(home, settings=settings, sources=[prices.source()], environ={}) as engine:
        for name, text in FILES.items():
            await engine.call("file_system", {"action": "write", "path": name, "content": text})
        yield engine


async def run_all(engine: Engine, runs: Sequence[DistilledRun]) -> list[str]:
    """Let the model answer each request in a run of its own, and return the ids of the runs."""
    ids = []
    for each in runs:
        async with open_conversation(engine) as conversation:
            report = await conversation.run(each.request)
        assert report.finish is Finish.ANSWER, report
        assert all(call.result.success for call in report.calls), [call.result.text for call in report.calls]
        ids.append(report.run)
    return ids


def parameters_of(proposal: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for each in proposal["parameters"]:
        yield each["name"], each["value"]


@pytest.mark.slow
@pytest.mark.spec("CODE-8")
@pytest.mark.timeout(1800)
async def test_at_least_seven_of_ten_runs_become_skills_that_later_requests_use(tmp_path: Path) -> None:
    prices, script = Prices(), Requests({each.request: each.program for each in RUNS})
    used: list[str] = []
    async with elsewhere(WEATHER) as module, serving(*[script] * 40) as model:
        module.execute = degrees
        async with opened(tmp_path / "home", model, prices, module) as engine:
            ids = await run_all(engine, RUNS)
            asked, sent = prices.asked, len(module.asked_for("/execute"))
            for each, run in zip(RUNS, ids, strict=True):
                made = await engine.call("create_skill", {"from_run": run, **each.corrections})
                if not made.success:
                    print(f"refused: {each.request}\n{made.text}\n")
                    continue
                # Admission called no tool: the price list and the server of the module were not asked.
                assert (prices.asked, len(module.asked_for("/execute"))) == (asked, sent)
                name = made.output["name"]
                offered = [spec.name for spec in await engine.get_active_tool_definitions(query=each.later)]
                properties = made.output["parameters"]["properties"]
                examples = {key: value["description"] for key, value in properties.items()}
                arguments = {
                    key: new
                    for key, text in examples.items()
                    for old, new in each.arguments.items()
                    if repr(old) in text
                }
                result = await engine.call(name, arguments)
                asked, sent = prices.asked, len(module.asked_for("/execute"))
                print(f"{name} {arguments}: {result.text[:200]} found: {name in offered}")
                if name in offered and result.success and each.result in (result.output, result.message):
                    used.append(name)
    print(json.dumps(used))
    assert len(used) >= 7
