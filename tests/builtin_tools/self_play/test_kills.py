"""A cycle whose process is killed with ``kill -9`` is kept or rolled back at the next start, and can be undone."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.self_play.command import stored
from bench.self_play.learner import Proposed, ScriptedLearner
from bench.self_play.model_server import serving_model
from builtin_tools.self_play.cycles import CycleState
from builtin_tools.self_play.self_play import SelfPlay
from engine import Engine
from engine.app.settings import Settings
from tests.builtin_tools.self_play.conftest import record_failures, settings_for

KILLS = 7  # of each scenario


@dataclass
class Victims:
    """Forks victims, and serves their model."""

    process: asyncio.subprocess.Process
    url: str
    learner: ScriptedLearner

    @property
    def settings(self) -> Settings:
        return settings_for(self.url)

    async def run(self, home: Path, what: str, kind: Proposed, number: int = 0, moment: str = "after") -> str:
        self.learner.script = [kind]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{home} {self.url} {what} {number} {moment}\n".encode())
        async with asyncio.timeout(120):
            return (await self.process.stdout.readline()).decode().strip()


@asynccontextmanager
async def victims() -> AsyncIterator[Victims]:
    learner = ScriptedLearner(4)
    async with serving_model(learner.respond) as url:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.builtin_tools.self_play.victim",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield Victims(process, url, learner)
        finally:
            process.kill()
            await process.wait()


async def opened(home: Path, settings: Settings) -> tuple[Any, list[CycleState], Any]:
    """Open an engine; return the stores, the states of the cycles, and the stores after everything was undone."""
    async with Engine.open(home, settings=settings, environ={}) as engine:
        play = engine.need(SelfPlay)
        states = [each.state for each in play.store.cycles()]
        now = await stored(engine)
        await play.undo_all()
        return now, states, await stored(engine)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.spec("PLAY-2")
@pytest.mark.parametrize(
    ("what", "kind"), [("play", Proposed.SKILL), ("play", Proposed.LESSON), ("undo", Proposed.SKILL)]
)
async def test_a_killed_cycle_or_undoing_leaves_the_stores_as_before_or_as_after(
    tmp_path: Path, what: str, kind: Proposed
) -> None:
    start = tmp_path / "start"
    async with victims() as them:
        async with Engine.open(start, settings=them.settings, environ={}) as engine:
            await record_failures(engine, 4)
            before = await stored(engine)
        if what == "undo":
            assert await them.run(start, "play", kind) != "killed"
        writes = int(await them.run(Path(shutil.copytree(start, tmp_path / "whole")), what, kind))
        kept = 0
        for index in range(KILLS):
            number, moment = 1 + index * (writes - 1) // (KILLS - 1), ("before", "after")[index % 2]
            ended = str(number)
            while ended != "killed":  # a run that makes fewer writes than the first one ends before this one
                number = min(number, int(ended))
                assert number > 0
                home = Path(shutil.copytree(start, tmp_path / f"{index}-{number}"))
                ended = await them.run(home, what, kind, number, moment)
                number -= 1
            now, states, undone = await opened(home, them.settings)
            assert not {CycleState.RUNNING, CycleState.UNDOING} & set(states)
            if CycleState.KEPT in states:
                kept += 1
                assert now != before
            else:
                assert now == before, (number, moment, states)
            assert undone == before, (number, moment, states)
        assert kept < KILLS
