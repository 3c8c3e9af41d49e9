"""`EngineHost`: lets packs call tools and send messages to the loop outside of a call, such as in the background."""

import asyncio
import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from engine.app.settings import Settings
from engine.contract.background import MessageReport
from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


class HostEngine(Protocol):
    """The part of an `Engine` that `EngineHost` itself uses. The loop uses more, so only an `Engine` has all of it."""

    @property
    def settings(self) -> Settings: ...

    def is_registered(self, agent: str) -> bool: ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], turn: Turn | None = None, *, call_id: str = ""
    ) -> ToolResult: ...

    async def describe_tool(self, name: str, turn: Turn | None = None) -> ToolSpec: ...


class EngineHost:
    """Gives background services the tools and the loop of an open engine (`BackgroundHost`)."""

    def __init__(self, engine: HostEngine) -> None:
        self._engine = engine

    async def call(self, name: str, arguments: Mapping[str, Any], turn: Turn, *, call_id: str = "") -> ToolResult:
        return await self._engine.call(name, arguments, turn, call_id=call_id)

    async def describe_tool(self, name: str, turn: Turn) -> ToolSpec:
        return await self._engine.describe_tool(name, turn)

    async def send(
        self, message: str, turn: Turn, *, most_tokens: int = 0, most_s: float = 0.0, model: str = ""
    ) -> MessageReport:
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
            self._engine, turn=turn, agent=agent, budget=budget, stream=False, may_wait=False, model=model
        )
        async with opened as talk:
            report = await talk.run(message)
        finish, calls = report.finish.value, len(report.calls)
        return MessageReport(finish == "answer", finish, report.answer, report.tokens, calls)
