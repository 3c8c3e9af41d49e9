"""Runs the background services of packs while an engine serves."""

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from engine.app.engine import Engine
from engine.contract.background import BackgroundService, MessageReport
from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn

_RESTART_S = 5.0  # pause before a service that failed is started again

log = logging.getLogger("knackbox.background")


class EngineHost:
    """Gives background services the tools and the loop of an open engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def call(self, name: str, arguments: Mapping[str, Any], turn: Turn, *, call_id: str = "") -> ToolResult:
        return await self._engine.call(name, arguments, turn, call_id=call_id)

    async def describe_tool(self, name: str, turn: Turn) -> ToolSpec:
        return await self._engine.describe_tool(name, turn)

    async def send(self, message: str, turn: Turn, *, most_tokens: int = 0, most_s: float = 0.0) -> MessageReport:
        # Imported in a thread when the first message is sent, because it loads the model client, which takes seconds.
        conversation = await asyncio.to_thread(importlib.import_module, "engine.app.conversation")
        agent = turn.agent if self._engine.is_registered(turn.agent) else None
        limits = self._engine.settings.budget
        budget = replace(
            conversation.configured_budget(limits),
            tokens=min(limits.tokens, most_tokens or limits.tokens),
            wall_s=min(limits.wall_s, most_s or limits.wall_s),
        )
        # A run that waited would be resumed besides the next attempt of its job.
        opened = conversation.open_conversation(
            self._engine, turn=turn, agent=agent, budget=budget, stream=False, may_wait=False
        )
        async with opened as talk:
            report = await talk.run(message)
        finish, calls = report.finish.value, len(report.calls)
        return MessageReport(finish == "answer", finish, report.answer, report.tokens, calls)


@asynccontextmanager
async def background(engine: Engine, *, enabled: bool = True) -> AsyncIterator[None]:
    """Run the background services of an engine's packs while the context is open, if they are enabled."""
    host = EngineHost(engine)
    services = engine.background_services if enabled else ()
    tasks = [asyncio.create_task(_keep_running(each, host), name="background") for each in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _keep_running(service: BackgroundService, host: EngineHost) -> None:
    """Run a service, and start it again if it fails, for example because the disk was full."""
    while True:
        try:
            await service.run(host)
        except Exception:
            log.exception("%s failed and is started again.", type(service).__name__)
        await asyncio.sleep(_RESTART_S)
