"""`LoopOfChildren`: lets the loop of an engine work on the runs that other runs have started."""

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

from engine.contract.background import MessageReport
from engine.contract.child_runs import ChildRun, RunLimits
from engine.contract.turn import Turn
from engine.stores.run_journal import ENDED, RunJournal, UnknownRun


class LoopOfChildren:
    """Implements `engine.contract.child_runs.ChildLoop`."""

    def __init__(self, runs: RunJournal) -> None:
        self._runs = runs
        self._engine: Any = None  # an `Engine`, which this module cannot import
        self._worker: Any = None  # a `ChildWorker`
        self._opening = asyncio.Lock()
        self._begins: list[Callable[[], None]] = []
        self._stops: list[Callable[[], Awaitable[None]]] = []

    def bind(self, engine: Any) -> None:
        self._engine = engine

    def limits(self) -> RunLimits:
        limits = self._engine.settings.budget
        return RunLimits(limits.turns, limits.tool_calls, limits.tokens, limits.wall_s)

    async def agent_turn(self, agent: str, turn: Turn) -> Turn:
        found: Turn = await self._engine.turn_of(agent, turn)
        return found

    async def work(self, child: ChildRun) -> MessageReport:
        async with self._opening:
            if self._worker is None:
                # Imported in a thread, because it loads the model client, which takes seconds.
                module = await asyncio.to_thread(importlib.import_module, "engine.app.child_worker")
                self._worker = await module.ChildWorker.open(self._engine)
        report: MessageReport = await self._worker.work(child)
        return report

    async def last_words(self, child: ChildRun) -> str:
        return await asyncio.to_thread(self._last_words, child.id)

    def call_when_used(self, begin: Callable[[], None]) -> None:
        self._begins.append(begin)

    def used(self) -> None:
        for begin in self._begins:
            begin()

    def call_before_close(self, stop: Callable[[], Awaitable[None]]) -> None:
        self._stops.append(stop)

    async def aclose(self) -> None:
        for stop in self._stops:
            await stop()
        if self._worker is not None:
            await self._worker.aclose()

    def _last_words(self, run: str) -> str:
        try:
            ended = self._runs.one(run).state == ENDED
        except UnknownRun:
            return ""
        for row in [] if ended else reversed(self._runs.entries(run)):
            entry = json.loads(row.entry)
            if entry["kind"] == "response":
                parts = entry["response"]["parts"]
                said = "\n".join(part["content"] for part in parts if part.get("part_kind") == "text").strip()
                if said:
                    return said
        return ""
