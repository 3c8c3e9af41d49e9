"""A real pipeline over real tools, with a clock and a sleep that tests control."""

import random
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engine.contract.context import Clock
from engine.contract.result import ToolCall, ToolResult
from engine.contract.source import Tool, ToolSource
from engine.contract.turn import Turn
from engine.dispatch.bind import ContextBinder
from engine.dispatch.parts import Parts
from engine.dispatch.pipeline import Pipeline
from engine.recovery.fallback import FallbackChains
from engine.recovery.retry import Retrier
from engine.registry.registry import Registry
from engine.registry.static import StaticSource
from engine.stores.clock import SystemClock
from engine.stores.workspace import FolderWorkspace
from sandbox.unsafe import UnsafeSandbox

TURN = Turn()


@dataclass
class ManualClock:
    """Time that passes only in `sleep`."""

    seconds: float = 0.0
    slept: list[float] = field(default_factory=list)
    start: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


@dataclass
class PipelineFixture:
    pipeline: Pipeline
    registry: Registry
    workspace: FolderWorkspace
    seen: list[tuple[ToolCall, ToolResult]]

    async def call(self, name: str, /, **arguments: Any) -> ToolResult:
        return await self.pipeline.call(ToolCall(name, arguments), TURN)


@asynccontextmanager
async def open_pipeline(
    root: Path,
    tools: Sequence[Tool],
    *,
    clock: Clock | None = None,
    sources: Sequence[ToolSource] = (),
    chains: Path | None = None,
    **parts: Any,
):
    time = clock or SystemClock()
    registry = Registry([StaticSource("built-in", tools), *sources])
    seen: list[tuple[ToolCall, ToolResult]] = []
    workspace = FolderWorkspace(root)
    if isinstance(time, ManualClock):
        parts.setdefault("retrier", Retrier(sleep=time.sleep, rng=random.Random(1)))
    pipeline = Pipeline(
        Parts(
            registry,
            ContextBinder(UnsafeSandbox(), workspace, time),
            time,
            chains=FallbackChains(chains, registry.static_specs) if chains else None,
            observers=(lambda call, result, _turn: seen.append((call, result)), *parts.pop("observers", ())),
            **parts,
        )
    )
    try:
        yield PipelineFixture(pipeline, registry, workspace, seen)
    finally:
        await pipeline.aclose()
