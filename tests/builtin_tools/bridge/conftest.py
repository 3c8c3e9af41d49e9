"""An engine with a real home and real boxes, whose programs call tools, among them some that only tests have."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.app.engine import Engine
from engine.app.people import People
from engine.app.settings import Settings
from engine.contract.result import ToolResult
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from engine.policy.forms import Form
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

Run = Callable[..., Any]


class Ledger:
    """What the tools of the tests have done, in order."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.looked = 0
        self.values: dict[str, str] = {}


class Answers:
    """An approver whose answer the test sets, and which records what it was asked."""

    def __init__(self) -> None:
        self.approve = True
        self.wait_for: asyncio.Event | None = None
        self.before_answer: Callable[[], object] = lambda: None
        self.asked: list[ApprovalRequest] = []
        self.begun = asyncio.Event()

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        self.begun.set()
        if self.wait_for is not None:
            await self.wait_for.wait()
        self.before_answer()
        return ApprovalAnswer(self.approve, request.digest, by="Grace")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def answers() -> Answers:
    return Answers()


def tools_of(ledger: Ledger) -> StaticSource:
    """Return tools that look, pay, and return much."""

    @tool(annotations=Annotations(read_only=True))
    def look_up(key: str) -> str:
        """Return the value of a key."""
        ledger.looked += 1
        return ledger.values.get(key, f"value of {key}")

    @tool(annotations=Annotations(requires_confirmation=True))
    def pay(order: str, amount: int = 1) -> str:
        """Pay an order."""
        ledger.paid.append(f"{order}:{amount}")
        return f"paid {order}"

    @tool(annotations=Annotations(read_only=True))
    def many_lines(lines: int) -> list[str]:
        """Return so many lines."""
        return [f"line {number}" for number in range(lines)]

    return StaticSource("tests", [look_up, pay, many_lines])


class Filler:
    """Fills in forms with the same answers, and keeps the forms."""

    def __init__(self, given: Mapping[str, str], filled: list[Form]) -> None:
        self._given = given
        self._filled = filled

    async def fill(self, form: Form) -> Mapping[str, str] | None:
        self._filled.append(form)
        return self._given


@pytest.fixture
def filled() -> list[Form]:
    return []


@pytest.fixture
def engine_with() -> Mapping[str, str] | None:
    """Return the answers to forms; None if nobody fills them in."""
    return None


@pytest.fixture
async def engine(
    tmp_path: Path, ledger: Ledger, answers: Answers, filled: list[Form], engine_with: Mapping[str, str] | None
) -> AsyncIterator[Engine]:
    settings = Settings.model_validate({"policy": {"approval": "confirmation"}})
    filler = None if engine_with is None else Filler(engine_with, filled)
    people, sources = People(approver=answers, filler=filler), [tools_of(ledger)]
    async with Engine.open(tmp_path / "home", settings=settings, sources=sources, people=people) as opened:
        yield opened


@pytest.fixture
def run(engine: Engine) -> Run:
    """Return a function that runs a program with `execute` and returns the result of the call."""

    async def run(code: str, language: str = "python", turn: Turn | None = None, **more: Any) -> ToolResult:
        return await engine.call("execute", {"language": language, "code": code, **more}, turn)

    return run
