"""Limits per user are exact for concurrent calls, across processes, and across restarts."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app.compose import People
from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, ToolNotFound
from engine.contract.result import ToolCall, ToolContext
from engine.contract.spec import Tag, ToolSpec
from engine.contract.turn import Turn
from engine.policy.gate import GateDecision, ToolDef
from engine.policy.rate_limits import RateLimits, ToolRateLimited
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.stores.clock import SystemClock
from engine.stores.records import Records
from tests.dispatch.pipeline_fixture import ManualClock, open_pipeline

pytestmark = pytest.mark.spec("ACCESS-6")
REPOSITORY = Path(__file__).resolve().parents[2]


def opened(folder: Path) -> Records:
    return Records.open(f"sqlite:///{folder}/records.db")


@tool(cooldown_seconds=60)
async def ring() -> str:
    """Ring."""
    return "rung"


async def test_a_call_within_the_cooldown_is_refused_with_the_time_to_wait(tmp_path: Path) -> None:
    clock = ManualClock()
    records = opened(tmp_path)
    async with open_pipeline(tmp_path, [ring], clock=clock, guards=(RateLimits(records, clock),)) as h:
        assert (await h.call("ring")).success
        clock.seconds += 18.5
        early = await h.call("ring")
        assert early.failure is not None
        assert (early.failure.failure_class, early.failure.reason) == (FailureClass.RETRYABLE, "rate_limited")
        assert early.failure.retry_after == pytest.approx(41.5)
        assert "again in 42 s. Nothing was run" in early.text
        other = await h.pipeline.call(ToolCall("ring", {}), Turn(user="somebody else"))
        assert other.success
        clock.seconds += 41.5
        assert (await h.call("ring")).success
    records.close()


@tool(daily_limit=1, tag=Tag("PING"))
async def ping(raw_arg: str) -> str:
    """Ping somebody."""
    return raw_arg


@asynccontextmanager
async def limited(home: Path, **options: Any) -> AsyncIterator[Engine]:
    sources = [StaticSource("mine", [ping, relay])]
    async with Engine.open(home, sources=sources, packs=False, environ={}, **options) as engine:
        yield engine


@pytest.mark.spec("TAG-3")
async def test_a_call_counts_against_the_user_of_the_message_and_not_of_the_turn(tmp_path: Path) -> None:
    async def pinged(engine: Engine, text: str, turn: Turn | None, user: str) -> bool:
        answered = await engine.answer_tags(text, turn, ToolContext(user=user))
        return [result.success for _, result in answered.calls] == [True]

    bot = Turn(user="bot")  # one turn of a service that answers many people
    async with limited(tmp_path) as engine:
        assert await pinged(engine, "PING: a", bot, "ada")
        assert await pinged(engine, "PING: a", bot, "bob")
        assert not await pinged(engine, "PING: a", bot, "ada")
        assert not await pinged(engine, "PING: a", None, "bob")
        assert not await pinged(engine, "PING: user=carol", bot, "ada")  # what the model writes chooses nobody
        assert (await engine.call("ping", {"raw_arg": "a"}, bot)).success  # nobody named: the turn's own
        assert not (await engine.call("ping", {"raw_arg": "a"}, bot, context=ToolContext(user="ada"))).success
        assert [row["user"] for row in (await engine.audit())[-2:]] == ["bob", "ada"]


@tool()
async def relay(ctx: CallContext) -> str:
    """Ping through the registry."""
    engine = ENGINES[-1]
    result = await engine.registry.execute("ping", {"raw_arg": "inner"}, ctx)
    return str(result.output)


ENGINES: list[Engine] = []


@pytest.mark.spec("REG-1", "ACCESS-7")
async def test_registry_execute_applies_limits_and_gate_and_raises_rate_limit_errors(tmp_path: Path) -> None:
    class No:
        async def check(self, tool: ToolDef, ctx: ToolContext) -> GateDecision:
            return GateDecision(approved=ctx.user != "eve", reason="Not you.")

    @tool(requires_gate=True)
    async def judged() -> str:
        """Do what is judged."""
        return "done"

    async with limited(tmp_path, people=People(gate=No())) as engine:
        ENGINES.append(engine)
        registry = engine.registry
        await registry.register(judged)
        done = await registry.execute("ping", {"raw_arg": "a"}, Turn(user="ada"))
        assert (done.success, done.output) == (True, "a")
        with pytest.raises(ToolRateLimited, match="can be called again in") as early:
            await registry.execute("ping", {"raw_arg": "a"}, ToolContext(user="ada"))
        assert early.value.retry_after > 0
        assert (await registry.execute("ping", {"raw_arg": "a"})).success  # the usual user has their own count
        refused = await registry.execute("judged", {}, Turn(user="eve"))
        assert (refused.success, refused.message) == (False, "Not you.")
        assert (await registry.execute("judged", {}, Turn(user="ada"))).success
        with pytest.raises(ToolNotFound, match="Nearest: ping"):
            await registry.execute("pign", {})
        assert (await engine.call("relay", {}, Turn(user="zoe"))).output == "inner"
        again = await engine.call("relay", {}, Turn(user="zoe"))
        assert again.failure is not None
        assert again.failure.reason == "rate_limited"
        with pytest.raises(TypeError, match="ctx must be a Turn"):
            await registry.execute("ping", {"raw_arg": "a"}, "ada")


def test_daily_limits_are_reset_at_midnight_utc(tmp_path: Path) -> None:
    clock = ManualClock(start=datetime(2026, 1, 2, 23, 0, tzinfo=UTC))
    records = opened(tmp_path)
    limits, spec = RateLimits(records, clock), ToolSpec("t", "Does.", daily_limit=2)
    limits.take("ada", spec)
    limits.take("ada", spec)
    with pytest.raises(ToolRateLimited, match="2 times a day") as caught:
        limits.take("ada", spec)
    assert caught.value.retry_after == 3600.0
    clock.seconds += 3600
    limits.take("ada", spec)
    records.close()


def test_setting_the_clock_back_does_not_lock_a_user_out(tmp_path: Path) -> None:
    clock = ManualClock()
    records = opened(tmp_path)
    limits, spec = RateLimits(records, clock), ToolSpec("t", "Does.", cooldown_seconds=10)
    limits.take("ada", spec)
    clock.start -= timedelta(days=3)
    limits.take("ada", spec)
    with pytest.raises(ToolRateLimited):  # the new time counts from here on
        limits.take("ada", spec)
    records.close()


async def test_concurrent_calls_are_admitted_exactly_up_to_the_limit(tmp_path: Path) -> None:
    ran = 0

    @tool(daily_limit=7)
    async def count() -> None:
        """Count."""
        nonlocal ran
        ran += 1

    records, clock = opened(tmp_path), SystemClock()
    async with open_pipeline(tmp_path, [count], guards=(RateLimits(records, clock),)) as h:
        results = await asyncio.gather(*(h.call("count") for _ in range(40)))
    assert (ran, sum(result.success for result in results)) == (7, 7)
    records.close()


TAKE = """
import sys
from engine.contract.spec import ToolSpec
from engine.policy.gate import GateDecision, ToolDef
from engine.policy.rate_limits import RateLimits, ToolRateLimited
from engine.stores.records import Records
from tests.dispatch.pipeline_fixture import ManualClock
limits = RateLimits(Records.open(sys.argv[1]), ManualClock())
passed = 0
for _ in range(30):
    try:
        limits.take("ada", ToolSpec("t", "Does.", daily_limit=50))
        passed += 1
    except ToolRateLimited:
        pass
print(passed)
"""


@pytest.mark.slow
def test_processes_on_one_home_share_a_persistent_count(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    opened(tmp_path).close()
    running = [
        subprocess.Popen([sys.executable, "-c", TAKE, url], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    passed = [int(each.communicate(timeout=60)[0]) for each in running]
    assert sum(passed) == 50
    records = opened(tmp_path)
    with pytest.raises(ToolRateLimited):
        RateLimits(records, ManualClock()).take("ada", ToolSpec("t", "Does.", daily_limit=50))
    records.close()
