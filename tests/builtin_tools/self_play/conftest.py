"""An engine with a scripted model that learns codes by self-play."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.self_play.command import stored
from bench.self_play.learner import ScriptedLearner, code_name
from bench.self_play.model_server import serving_model
from builtin_tools.self_play.cycles import Cycle
from builtin_tools.self_play.self_play import SelfPlay
from engine import Engine
from engine.app.settings import Settings
from engine.contract.result import ToolResult
from engine.contract.turn import Turn


@dataclass
class PlayHome:
    """An open engine whose record has failed calls, and its model."""

    root: Path
    engine: Engine
    learner: ScriptedLearner
    requests: list[dict[str, Any]]

    @property
    def play(self) -> SelfPlay:
        return self.engine.need(SelfPlay)

    async def cycle(self, model: str = "") -> Cycle:
        return await self.play.play(Turn(), model)

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        return await self.engine.call(name, arguments)

    async def stored(self) -> Any:
        return await stored(self.engine)


def settings_for(url: str) -> Settings:
    model = {"provider": "openai", "name": "scripted", "base_url": url, "api_key": "none"}
    return Settings.model_validate({"model": model, "packs": {"self_play": {"pause_s": 0.0}}})


async def record_failures(engine: Engine, codes: int) -> None:
    """Call tools that do not exist, so that the record shows weaknesses."""
    for number in range(codes):
        await engine.call(code_name(number), {"text": "a"})
    await engine.audit(1)


@asynccontextmanager
async def open_play(root: Path, codes: int = 4) -> AsyncIterator[PlayHome]:
    learner, requests = ScriptedLearner(codes), list[dict[str, Any]]()

    def respond(body: dict[str, Any]) -> Any:
        requests.append(body)
        return learner.respond(body)

    async with (
        serving_model(respond) as url,
        Engine.open(root, settings=settings_for(url), environ={}) as engine,
    ):
        await record_failures(engine, codes)
        yield PlayHome(root, engine, learner, requests)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[PlayHome]:
    async with open_play(tmp_path / "home") as opened:
        yield opened
