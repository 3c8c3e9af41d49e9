"""`RateLimits`: enforces cool-downs and daily limits for each user and tool (ACCESS-6).

Uses are stored in the records, so they survive restarts and are shared by all processes on one home. A call counts once
it is admitted, even if it fails.
"""

import asyncio
import math
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Column, Float, Integer, MetaData, String, Table, select

from engine.contract.context import Clock
from engine.contract.failure import REFUSED, FailureClass, ToolFailure
from engine.contract.guard import Guard, GuardRequest
from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec
from engine.stores.records import Records

_SCHEMA = MetaData()
_USES = Table(
    "tool_uses",
    _SCHEMA,
    Column("user", String(200), primary_key=True),
    Column("tool", String(200), primary_key=True),
    Column("day", String(10), nullable=False),
    Column("count", Integer, nullable=False),
    Column("last", Float, nullable=False),
)


RATE_LIMITED = "rate_limited"  # `Failure.reason` if a limit refuses a call


class ToolRateLimited(ToolFailure):
    """A rate limit refuses the call for now.

    Attributes:
        retry_after: Seconds until the next call is admitted.
    """

    def __init__(self, text: str, retry_after: float) -> None:
        super().__init__(
            text,
            failure_class=FailureClass.RETRYABLE,
            reason=RATE_LIMITED,
            retry_after=retry_after,
            may_have_started=False,
            end=REFUSED,
        )


class RateLimits(Guard):
    """A guard that enforces the rate limits. It costs nothing for tools without limits."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        records.create(_SCHEMA)

    def concerns(self, spec: ToolSpec) -> bool:
        return bool(spec.cooldown_seconds or spec.daily_limit)

    def admit(self, request: GuardRequest) -> Awaitable[None]:
        """Return an awaitable that counts the call.

        Raises:
            ToolRateLimited: A limit refuses the call. Awaiting the result raises it.
        """
        return asyncio.to_thread(self.take, request.turn.user, request.spec)

    def take(self, user: str, spec: ToolSpec) -> None:
        """Count one call of this user, in one transaction. This method blocks.

        Raises:
            ToolRateLimited: A limit refuses the call.
        """
        now = self._clock.now().astimezone(UTC)
        today = now.date().isoformat()
        key = (_USES.c.user == user) & (_USES.c.tool == spec.name)
        with self._records.begin() as connection:
            row = connection.execute(select(_USES.c.day, _USES.c.count, _USES.c.last).where(key)).one_or_none()
            day, before, last = row if row is not None else ("", 0, None)
            count = before if day == today else 0
            if last is not None and spec.cooldown_seconds:
                left = last + spec.cooldown_seconds - now.timestamp()
                if 0 < left <= spec.cooldown_seconds:  # a longer wait means that the clock was set back
                    raise _too_early(spec, f"may be called only once every {_duration(spec.cooldown_seconds)}", left)
            if spec.daily_limit and count >= spec.daily_limit:
                raise _too_early(
                    spec, f"may be called at most {spec.daily_limit} times a day (UTC)", _until_midnight(now)
                )
            values = {"user": user, "tool": spec.name, "day": today, "count": count + 1, "last": now.timestamp()}
            put = self._records.insert(_USES).values(values)
            connection.execute(put.on_conflict_do_update(index_elements=["user", "tool"], set_=values))


def refused_by_limits(result: ToolResult) -> ToolRateLimited | None:
    """Return the error to raise for the result of a call that a rate limit refused, or None for any other result."""
    failure = result.failure
    if failure is None or failure.reason != RATE_LIMITED or result.audit.end != REFUSED:
        return None
    return ToolRateLimited(result.error, failure.retry_after or 0.0)


def _too_early(spec: ToolSpec, rule: str, retry_after: float) -> ToolRateLimited:
    text = f"{spec.name} {rule}; it can be called again in {_duration(retry_after)}. Nothing was run."
    return ToolRateLimited(text, retry_after)


def _until_midnight(now: datetime) -> float:
    midnight = datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=1)
    return (midnight - now).total_seconds()


def _duration(seconds: float) -> str:
    """Format a number of seconds, rounded up, so that a caller who waits that long is not refused again."""
    whole = math.ceil(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{whole} s"
