"""`HostPace`: limits the rate of requests to each host."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from builtin_tools.http_hop import temporary
from engine.contract.context import Clock

_MOST_HOSTS = 4096  # beyond it, hosts to which a request may be sent at once are forgotten
_LONGEST_HOLD_S = 3600.0  # a server may request more, but must not make itself unusable for days


@dataclass(slots=True)
class _Host:
    """The state of one host.

    Attributes:
        due: When the bucket of the host is full again, in monotonic seconds.
        interval: Seconds between two requests.
        held_until: Before this time, in monotonic seconds, no request is sent.
    """

    due: float
    interval: float
    held_until: float = 0.0


class HostPace:
    """Spaces the requests to each host with the generic cell rate algorithm: a burst, then one request per interval."""

    def __init__(
        self,
        clock: Clock,
        *,
        requests_per_s: float,
        burst: int,
        longest_wait_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Create the limit.

        Args:
            clock: The current time.
            requests_per_s: The rate after a burst.
            burst: How many requests are sent without a pause.
            longest_wait_s: If a request would have to wait longer, it is refused.
            sleep: Waits for a number of seconds.
        """
        self._clock = clock
        self._interval = 1 / requests_per_s
        self._burst = burst
        self._longest_wait_s = longest_wait_s
        self._sleep = sleep
        self._hosts: dict[str, _Host] = {}

    async def wait(self, host: str) -> None:
        """Wait until a request may be sent to a host, and count it.

        Raises:
            ToolFailure: It would have to wait too long (RETRYABLE). It is not counted.
        """
        now = self._clock.monotonic()
        state = self._state(host, now)
        start = max(now, state.due - state.interval * (self._burst - 1), state.held_until)
        if start - now > self._longest_wait_s:
            raise temporary(
                f"{host} was asked too often: the next request may be sent in {start - now:.0f} s. Use another source, "
                "or try again then.",
                start - now,
            )
        # The slot is taken before the wait, so that requests that wait at the same time get different ones.
        state.due = max(state.due, start) + state.interval
        if start > now:
            await self._sleep(start - now)

    def slow_down(self, host: str, interval_s: float) -> None:
        """Send at most one request per `interval_s` to a host, as its robots.txt requests."""
        state = self._state(host, self._clock.monotonic())
        state.interval = max(self._interval, interval_s)

    def hold(self, host: str, seconds: float) -> None:
        """Send no request to a host for some time, as its response requested."""
        now = self._clock.monotonic()
        state = self._state(host, now)
        state.held_until = max(state.held_until, now + min(seconds, _LONGEST_HOLD_S))

    def _state(self, host: str, now: float) -> _Host:
        state = self._hosts.get(host)
        if state is None:
            if len(self._hosts) >= _MOST_HOSTS:
                self._hosts = {name: each for name, each in self._hosts.items() if max(each.due, each.held_until) > now}
            state = self._hosts[host] = _Host(due=now, interval=self._interval)
        return state
