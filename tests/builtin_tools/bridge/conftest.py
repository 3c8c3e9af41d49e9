"""An engine with a real home and real boxes, whose programs call tools."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.app.engine import Engine
from engine.contract.result import ToolResult
from engine.contract.turn import Turn

Run = Callable[..., Any]


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.open(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def run(engine: Engine) -> Run:
    """Return a function that runs a program with `execute` and returns the result of the call."""

    async def run(code: str, language: str = "python", turn: Turn | None = None, **more: Any) -> ToolResult:
        return await engine.call("execute", {"language": language, "code": code, **more}, turn)

    return run
