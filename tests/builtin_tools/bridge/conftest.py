"""An engine with a real home and real boxes, whose programs call tools, among them some that only tests have."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.app.engine import Engine
from engine.app.people import People
from engine.contract.result import ToolResult
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

Run = Callable[..., Any]


class Ledger:
    """What the tools of the tests have done, in order."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.looked = 0


class Answers:
    """An approver that says what the test has set, and keeps what it was asked."""

    def __init__(self) -> None:
        self.approve = True
        self.asked: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
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
        return f"value of {key}"

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


@pytest.fixture
async def engine(tmp_path: Path, ledger: Ledger, answers: Answers) -> AsyncIterator[Engine]:
    people = People(approver=answers)
    async with Engine.open(tmp_path / "home", sources=[tools_of(ledger)], people=people) as opened:
        yield opened


@pytest.fixture
def run(engine: Engine) -> Run:
    """Return a function that runs a program with `execute` and returns the result of the call."""

    async def run(code: str, language: str = "python", turn: Turn | None = None, **more: Any) -> ToolResult:
        return await engine.call("execute", {"language": language, "code": code, **more}, turn)

    return run
