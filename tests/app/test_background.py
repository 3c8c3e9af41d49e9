"""Background services of packs run while an engine serves, and are started again if they fail."""

import asyncio
from pathlib import Path

import pytest

from engine import Engine
from engine.app import background as module
from engine.app.background import background
from engine.contract.background import BackgroundHost
from tests.eventually import eventually
from tests.skills.parts import NoSandbox

pytestmark = pytest.mark.spec("JOB-4")


class Ticker:
    """Fails as often as requested, and then runs until it is cancelled."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.began = 0
        self.ended = 0

    async def run(self, host: BackgroundHost) -> None:
        self.began += 1
        if self.began <= self.failures:
            raise OSError("no space")
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1


async def test_services_run_while_the_context_is_open_and_survive_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ticker = Ticker(failures=2)
    monkeypatch.setattr(Engine, "background_services", (ticker,))
    monkeypatch.setattr(module, "_RESTART_S", 0)
    async with Engine.open(tmp_path, packs=False, sandbox=NoSandbox(), environ={}) as engine:
        async with background(engine):
            await eventually(lambda: ticker.began == 3)
            assert ticker.ended == 0
        assert ticker.ended == 1
    assert "Ticker failed and is started again" in caplog.text


async def test_services_that_are_not_enabled_do_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticker = Ticker()
    monkeypatch.setattr(Engine, "background_services", (ticker,))
    opened = Engine.open(tmp_path, packs=False, sandbox=NoSandbox(), environ={})
    async with opened as engine, background(engine, enabled=False):
        await asyncio.sleep(0)
    assert ticker.began == 0
