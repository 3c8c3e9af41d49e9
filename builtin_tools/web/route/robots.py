"""`RobotsRules`: whether the robots.txt of a host allows a URL (RFC 9309)."""

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

from cachetools import TTLCache

from builtin_tools.http_hop import permanent, temporary
from engine.contract.context import Clock
from sandbox.contract import Call, End, Job, Limits, Outcome, Sandbox

AGENT = "Knackbox"  # the name that robots.txt may address
MAX_BYTES = 500 << 10  # RFC 9309, 2.5: at least 500 KiB are read
_KEPT_S = 24 * 3600.0  # RFC 9309, 2.4: a copy should not be used for longer
_MOST_FILES = 200
_ENTRY = "robots_rules.py"
_LIMITS = Limits(wall_s=10.0, cpu_s=5.0, memory_bytes=256 << 20)


class RobotsRules:
    """Requests and keeps the robots.txt of each host, and evaluates it in a box."""

    def __init__(self, sandbox: Sandbox, clock: Clock) -> None:
        self._sandbox = sandbox
        self._files: TTLCache[str, str] = TTLCache(_MOST_FILES, _KEPT_S, timer=clock.monotonic)

    async def check(self, origin: str, url: str, request: Callable[[str], Awaitable[str]]) -> float:
        """Check that robots.txt allows a URL.

        Args:
            origin: The scheme, host and port of the URL.
            url: The URL.
            request: Returns the robots.txt at a URL, "" if there is none, or raises ToolFailure.

        Returns:
            The seconds between two requests to the host that robots.txt asks for; 0 for none.

        Raises:
            ToolFailure: It does not allow the URL, or cannot be requested or evaluated.
        """
        text = self._files.get(origin)
        if text is None:
            text = self._files[origin] = await request(f"{origin}/robots.txt")
        if not text.strip():
            return 0.0
        source = await asyncio.to_thread(_program)
        arguments = {"text": text, "url": url, "agent": AGENT}
        job = Job(call=Call(_ENTRY, "verdict", arguments), files={_ENTRY: source}, limits=_LIMITS)
        return _checked(await self._sandbox.run(job), origin, url)


def _checked(outcome: Outcome, origin: str, url: str) -> float:
    value = outcome.value
    if outcome.end is not End.OK or not isinstance(value, dict) or not isinstance(value.get("allowed"), bool):
        raise temporary(
            f"{origin}/robots.txt could not be evaluated ({outcome.end.value}), so {url} was not requested. Use "
            "another source; a person can set robots = false in [packs.web] of the configuration."
        )
    if not value["allowed"]:
        raise permanent(
            f"{origin}/robots.txt does not allow programs to request {url}. Use another source; a person can set "
            "robots = false in [packs.web] of the configuration.",
            "robots_refused",
        )
    delay = value.get("delay")
    return delay if isinstance(delay, float) and math.isfinite(delay) and delay > 0 else 0.0


@functools.cache
def _program() -> bytes:
    return (Path(__file__).parent / "in_box" / _ENTRY).read_bytes()
