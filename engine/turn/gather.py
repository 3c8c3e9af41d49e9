"""Asking every source what it offers this turn. One that fails or hangs is reported, and the others count."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from engine.contract.source import Tool, ToolSource
from engine.contract.turn import Turn

_log = logging.getLogger("knackbox.turn")

# Seconds one source may take. Generous: the first question to the skills loads their index.
SOURCE_TIMEOUT_S = 20.0


Ask = Callable[[ToolSource, Turn], Awaitable[Sequence[Tool]]]


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source whose tools are missing from this turn's list, and why."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """answers: of the sources that gave one, in their order. failed: those that gave none."""

    answers: tuple[Sequence[Tool], ...]
    failed: tuple[SourceFailure, ...]


async def every_tool(source: ToolSource, turn: Turn) -> Sequence[Tool]:
    """All that a source offers for a turn."""
    return await source.tools(turn)


async def gather(
    sources: Sequence[ToolSource], turn: Turn, *, ask: Ask = every_tool, timeout_s: float = SOURCE_TIMEOUT_S
) -> Gathered:
    """What all sources offer, asked at the same time. ask: gets the tools of one source."""
    answers = await asyncio.gather(*(_asked(ask, source, turn, timeout_s) for source in sources))
    given = tuple(answer for answer in answers if not isinstance(answer, SourceFailure))
    return Gathered(given, tuple(answer for answer in answers if isinstance(answer, SourceFailure)))


async def _asked(ask: Ask, source: ToolSource, turn: Turn, timeout_s: float) -> Sequence[Tool] | SourceFailure:
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            return await ask(source, turn)
    except Exception as error:  # noqa: BLE001 - a source is other people's code; it must not take the turn down
        reason = f"no answer within {timeout_s:g} s" if deadline.expired() else f"{type(error).__name__}: {error}"
        _log.warning("Tool source %r gave no tools this turn: %s", source.name, reason)
        return SourceFailure(source.name, reason)
