"""`resuming_runs`: resumes the runs that were interrupted, while an engine is open (`[runs] resume_at_start`)."""

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from engine.app.engine import Engine
from engine.contract.failure import ConfigError
from engine.stores.entry_writer import LeaseLost

log = logging.getLogger(__name__)


@asynccontextmanager
async def resuming_runs(engine: Engine) -> AsyncIterator[None]:
    """Resume interrupted runs, and runs that wait for the model, one after the other, if this is configured.

    A run that is being worked on when the context is left can be resumed again.
    """
    if not engine.settings.runs.resume_at_start or not engine.settings.model.configured:
        yield
        return
    resuming = asyncio.create_task(_resume_all(engine), name="resume runs")
    try:
        yield
    finally:
        resuming.cancel()
        await asyncio.wait({resuming})


async def _resume_all(engine: Engine) -> None:
    runs = await asyncio.to_thread(_interrupted, engine)
    if not runs:
        return
    # The model client takes seconds to load, so it must not be loaded in the event loop.
    conversation = await asyncio.to_thread(importlib.import_module, "engine.app.conversation")
    for run in runs:
        try:
            await _resume(engine, conversation, run)
        except (ConfigError, LeaseLost, OSError) as error:  # another process may be faster
            log.warning("The run %s was not resumed: %s", run, error)


def _interrupted(engine: Engine) -> list[str]:
    """Return the runs to resume. Child runs are continued by the pack that has started them."""
    children = {child.id for child in engine.services.child_runs.unended()}
    return [run for run in engine.runs.interrupted(waiting_for="model") if run not in children]


async def _resume(engine: Engine, conversation: Any, run: str) -> None:
    async with conversation.open_conversation(engine, stream=False, leave_open=True) as talk:
        report = await talk.resume(await conversation.runs_of(engine).open(run))
        log.info("The run %s was resumed: %s.", run, report.finish.value)
