"""One engine for each test module, with the installed packs and real kernels. Each test has a new agent."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from builtin_tools.kernels.service import Kernels
from engine.app.engine import Engine
from engine.app.settings import Settings
from engine.contract.context import no_progress
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.spec import KernelOwner

DIE = "import os; os.kill(os.getpid(), 9)"
LOST = "State was lost"
_agents = itertools.count()


@dataclass
class Agent:
    """Calls tools as one agent would."""

    engine: Engine
    workspace: Path
    turn: Turn = field(default_factory=lambda: Turn(agent=f"agent-{next(_agents)}"))

    async def cell(self, code: str, *, progress: Any = no_progress, call_id: str = "", **more: Any) -> ToolResult:
        arguments = {"language": "python", "code": code, "stateful": True, **more}
        return await self.engine.call("execute", arguments, self.turn, progress=progress, call_id=call_id)

    async def kernels(self, action: str, **more: Any) -> ToolResult:
        return await self.engine.call("kernels", {"action": action, **more}, self.turn)

    async def boxed(self) -> BoxedKernel | None:
        """Return the agent's kernel in its box; None when it has ended."""
        pool = await self.engine.need(Kernels).pool()
        client = pool.find(KernelOwner(self.turn.user, self.turn.agent), ended=True).client
        return client.kernel if client is not None else None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    settings = Settings.model_validate({"kernels": {"warm": 0, "most": 64}})
    async with Engine.open(tmp_path_factory.mktemp("home"), settings=settings) as opened:
        yield opened


@pytest.fixture
def agent(engine: Engine) -> Agent:
    return Agent(engine, engine.services.home.workspace)
