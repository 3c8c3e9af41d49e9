"""Collects what all sources offer for a turn. Sources that fail or hang are reported and skipped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from engine.contract.source import Tool, ToolSource
from engine.contract.turn import Turn

_log = logging.getLogger("knackbox.turn")

# Seconds that one source may take. Generous, because the first query to the skills loads their index.
SOURCE_TIMEOUT_S = 20.0


Ask = Callable[[ToolSource, Turn], Awaitable[Sequence[Tool]]]


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source whose tools are missing from this turn's list, and why."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """The answers of all sources, in order, and the sources that failed."""

    answers: tuple[Sequence[Tool], ...]
    failed: tuple[SourceFailure, ...]


async def every_tool(source: ToolSource, turn: Turn) -> Sequence[Tool]:
    """Return all tools that a source offers for a turn."""
    return await source.tools(turn)


async def gather(
    sources: Sequence[ToolSource], turn: Turn, *, ask: Ask = every_tool, timeout_s: float = SOURCE_TIMEOUT_S
) -> Gathered:
    """Ask all sources concurrently. ask: gets the tools of one source."""
    answers = await asyncio.gather(*(_asked(ask, source, turn, timeout_s) for source in sources))
    given = tuple(answer for answer in answers if not isinstance(answer, SourceFailure))
    return Gathered(given, tuple(answer for answer in answers if isinstance(answer, SourceFailure)))


async def _asked(ask: Ask, source: ToolSource, turn: Turn, timeout_s: float) -> Sequence[Tool] | SourceFailure:
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            return await ask(source, turn)
    except Exception as error:  # noqa: BLE001 - sources are foreign code and must not make the turn fail
        reason = f"no answer within {timeout_s:g} s" if deadline.expired() else f"{type(error).__name__}: {error}"
        _log.warning("Tool source %r gave no tools this turn: %s", source.name, reason)
        return SourceFailure(source.name, reason)
