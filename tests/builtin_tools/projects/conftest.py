"""An engine with the projects pack."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builtin_tools.projects.store import ProjectStore
from engine import Engine
from engine.app.settings import Settings
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from tests.skills.parts import NoSandbox

ADA = Turn(user="ada")


@dataclass
class ProjectHome:
    """An open engine."""

    engine: Engine
    root: Path

    @property
    def store(self) -> ProjectStore:
        return self.engine.need(ProjectStore)

    async def manage(self, action: str, turn: Turn = ADA, **arguments: Any) -> ToolResult:
        return await self.engine.call("manage_projects", {"action": action, **arguments}, turn)

    async def prompt(self, turn: Turn = ADA) -> str:
        return (await self.engine.prompt_blocks(turn, "hello")).instructions


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ProjectHome]:
    async with Engine.open(tmp_path, settings=Settings(), sandbox=NoSandbox()) as engine:
        yield ProjectHome(engine, tmp_path)
