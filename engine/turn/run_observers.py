"""Notifies packs when a run of the loop has ended."""

import asyncio
import logging
from collections.abc import Sequence

from engine.contract.run_summary import RunObserver, RunSummary
from engine.contract.turn import Turn

DEADLINE_S = 5.0  # the answer waits for the observers

_log = logging.getLogger("knackbox.turn")


async def notify(observers: Sequence[RunObserver], turn: Turn, summary: RunSummary) -> None:
    """Pass a run's summary to all observers concurrently. Failures and delays beyond `DEADLINE_S` are logged."""
    await asyncio.gather(*(_notify(observer, turn, summary) for observer in observers))


async def _notify(observer: RunObserver, turn: Turn, summary: RunSummary) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S):
            await observer.run_ended(turn, summary)
    except Exception:  # noqa: BLE001 -- observers are other people's code
        _log.exception("%s failed to process the summary of a run.", type(observer).__name__)
