"""Runs the background services of packs while an engine serves."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.app.engine import Engine
from engine.app.engine_host import EngineHost
from engine.contract.background import BackgroundService

_RESTART_S = 5.0  # pause before a service that failed is started again

log = logging.getLogger("knackbox.background")


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
