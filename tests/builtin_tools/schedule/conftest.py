"""An engine with the schedule pack, and a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from builtin_tools.schedule.service import ScheduleService
from builtin_tools.schedule.worker import JobWorker
from engine import Engine
from engine.app.background import EngineHost
from engine.app.settings import Settings
from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.result import ToolResult
from engine.contract.scheduler import InstantState, JobInstant
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.builtin_tools.schedule.jobs import ADA, SteppedClock
from tests.eventually import eventually
from tests.skills.parts import NoSandbox


@dataclass
class Pings:
    """The calls of the tools, and how they should behave."""

    seen: list[str] = field(default_factory=list)
    fail_with: list[FailureClass] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def note(self, ctx: CallContext, what: str) -> str:
        self.seen.append(f"{what} for {ctx.user} as {ctx.turn.agent}")
        if self.fail_with:
            kind = self.fail_with.pop()
            raise ToolFailure("The server is busy.", failure_class=kind, reason="busy")
        if self.hold is not None:
            await self.hold.wait()
        return f"noted {what}"


@dataclass
class JobHome:
    """An open engine and its worker."""

    engine: Engine
    clock: SteppedClock
    pings: Pings
    root: Path

    @property
    def service(self) -> ScheduleService:
        return self.engine.need(ScheduleService)

    async def manage(self, action: str, turn: Turn = ADA, **arguments: Any) -> ToolResult:
        return await self.engine.call("manage_tasks", {"action": action, **arguments}, turn)

    async def create(self, turn: Turn = ADA, **arguments: Any) -> str:
        given = {"name": "a job", "schedule": "every 1 hour", "tool": "ping", "arguments": {"what": "it"}} | arguments
        if "message" in arguments or "skill" in arguments:
            del given["tool"]
        if "message" in arguments:
            del given["arguments"]
        created = await self.manage("create", turn, **given)
        assert created.success, created.error
        return str(created.output["id"])

    def newest(self, job_id: str) -> JobInstant | None:
        return next(iter(self.service.store.history(None, job_id, 1)), None)

    async def until(self, job_id: str, state: InstantState) -> JobInstant:
        """Wait until the latest instant of a job has a state."""

        def reached() -> JobInstant | None:
            found = self.newest(job_id)
            return found if found is not None and found.state is state else None

        found = await eventually(reached)
        assert found is not None
        return found

    @asynccontextmanager
    async def working(self, stop_s: float = 10.0) -> AsyncIterator[None]:
        """Run a worker while the context is open."""
        worker = JobWorker(self.service.store, self.root / "workers", self.clock, stop_s=stop_s, poll_s=0.01)
        task = asyncio.create_task(worker.run(EngineHost(self.engine)))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def open_jobs(root: Path, settings: Settings | None = None) -> AsyncIterator[JobHome]:
    pings, clock = Pings(), SteppedClock()

    @tool(required_permission="guest")
    async def ping(ctx: CallContext, what: str) -> str:
        """Note something.

        Args:
            what: What to note.
        """
        return await pings.note(ctx, what)

    @tool(annotations=Annotations(read_only=True))
    async def look(ctx: CallContext, what: str) -> str:
        """Look at something.

        Args:
            what: What to look at.
        """
        return await pings.note(ctx, what)

    @tool(required_permission="admin")
    async def shut_down(ctx: CallContext, what: str) -> str:
        """Shut something down.

        Args:
            what: What to shut down.
        """
        return await pings.note(ctx, what)

    @tool(idempotency_key_fields=("what",))
    async def pay(ctx: CallContext, what: str) -> str:
        """Pay for something.

        Args:
            what: What to pay for.
        """
        return await pings.note(ctx, what)

    source = StaticSource("test", [ping, look, shut_down, pay])
    chosen = settings or Settings()
    async with Engine.open(root, settings=chosen, sources=[source], sandbox=NoSandbox(), clock=clock) as engine:
        yield JobHome(engine, clock, pings, root)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[JobHome]:
    async with open_jobs(tmp_path) as opened:
        yield opened
