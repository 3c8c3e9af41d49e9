"""A call with an idempotency key happens once, even if it is requested repeatedly or by several processes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.guard import GuardRequest
from engine.contract.result import ToolCall, ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.keyed import KeyedCalls, key_of
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.stores.clock import SystemClock
from engine.stores.engine_lock import EngineLock
from engine.stores.key_ledger import Key, KeyLedger
from engine.stores.records import Records
from tests.dispatch.pipeline_fixture import TURN, ManualClock, open_pipeline

pytestmark = pytest.mark.spec("CALL-9")
REPOSITORY = Path(__file__).resolve().parents[2]


class Desk:
    """The keyed calls of one engine on a folder."""

    def __init__(self, folder: Path, clock: Any = None) -> None:
        self.records = Records.open(f"sqlite:///{folder}/records.db")
        self.lock = EngineLock(folder / "engines")
        self.ledger = KeyLedger(self.records, self.lock, clock or SystemClock())
        self.keyed = KeyedCalls(self.ledger)

    def close(self) -> None:
        self.lock.close()
        self.records.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


class Bank:
    """A service that must not receive a request twice."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.fail: Exception | None = None
        self.wait: asyncio.Event | None = None
        self.entered = asyncio.Event()

    def tool(self, **options: Any) -> Any:
        @tool(**({"idempotency_key_fields": ("order",), "timeout_s": 30} | options))
        async def pay(order: str, amount: int = 1) -> dict[str, Any]:
            """Pay."""
            self.paid.append(amount)
            self.entered.set()
            if self.wait is not None:
                await self.wait.wait()
            if self.fail is not None:
                raise self.fail
            return {"receipt": len(self.paid), "amount": amount}

        return pay


async def test_a_second_call_with_the_same_key_returns_the_first_result(tmp_path: Path, desk: Desk) -> None:
    bank = Bank()
    async with open_pipeline(tmp_path, [bank.tool()], keyed=desk.keyed) as h:
        first = await h.call("pay", order="a", amount=5)
        again = await h.call("pay", order="a", amount=7)
        other = await h.call("pay", order="b", amount=9)
    assert bank.paid == [5, 9]
    assert (again.success, again.output, again.message) == (True, first.output, first.message)
    assert (again.audit.end, again.audit.attempts) == ("replayed", 0)
    assert other.output["amount"] == 9


async def test_of_concurrent_calls_with_one_key_one_runs_and_all_get_its_result(tmp_path: Path, desk: Desk) -> None:
    bank = Bank()
    bank.wait = asyncio.Event()
    async with open_pipeline(tmp_path, [bank.tool()], keyed=desk.keyed) as h:
        waiting = [asyncio.ensure_future(h.call("pay", order="a", amount=n)) for n in range(8)]
        await bank.entered.wait()
        bank.wait.set()
        results = await asyncio.gather(*waiting)
    assert len(bank.paid) == 1
    assert {result.output["amount"] for result in results} == {bank.paid[0]}
    assert sorted(result.audit.end for result in results) == ["ok"] + ["replayed"] * 7


async def test_two_engines_on_one_home_share_keys(tmp_path: Path, desk: Desk) -> None:
    bank, second = Bank(), Desk(tmp_path)
    bank.wait = asyncio.Event()
    async with (
        open_pipeline(tmp_path, [bank.tool()], keyed=desk.keyed) as one,
        open_pipeline(tmp_path, [bank.tool()], keyed=second.keyed) as two,
    ):
        first = asyncio.ensure_future(one.call("pay", order="a", amount=1))
        await bank.entered.wait()
        later = asyncio.ensure_future(two.call("pay", order="a", amount=2))
        await asyncio.wait((later,), timeout=0.2)
        assert not later.done()
        bank.wait.set()
        assert (await later).output == (await first).output
    assert bank.paid == [1]
    second.close()


async def test_keys_are_separate_for_each_user_tool_and_version(tmp_path: Path, desk: Desk) -> None:
    bank = Bank()
    for options in ({}, {"version": "2"}, {"name": "other"}):
        async with open_pipeline(tmp_path, [bank.tool(**options)], keyed=desk.keyed) as h:
            for user in ("ada", "bob"):
                await h.pipeline.call(ToolCall(options.get("name", "pay"), {"order": "a"}), Turn(user=user))
        desk.keyed = KeyedCalls(desk.ledger)
    assert len(bank.paid) == 6


def test_a_key_depends_only_on_the_key_fields_or_their_digests() -> None:
    def key(fields: tuple[str, ...], **arguments: Any) -> Key:
        spec = ToolSpec("t", "Does.", idempotency_key_fields=fields)
        return key_of(GuardRequest(ToolCall("t", arguments), "id", "now", spec, TURN))

    assert key(("a",), a=1, b=2) == key(("a",), a=1, b=3)
    assert key(("a",), a=1) != key(("a",), a=2)
    assert key(("a", "b"), a=1) == key(("a", "b"), a=1, b=None)
    assert key(("sha256(a)",), a={"x": [1], "y": 2}) == key(("sha256(a)",), a={"y": 2, "x": [1]})
    assert key(("sha256(a)",), a="1") != key(("sha256(a)",), a=1)


async def test_a_failure_keeps_the_key_only_if_the_call_may_have_started(tmp_path: Path, desk: Desk) -> None:
    bank = Bank()
    async with open_pipeline(tmp_path, [bank.tool()], keyed=desk.keyed) as h:
        bank.fail = ToolFailure("nothing was sent", may_have_started=False)
        assert not (await h.call("pay", order="a")).success
        bank.fail = ToolFailure("half way through")
        assert "half way" in (await h.call("pay", order="a")).text
        bank.fail = None
        again = await h.call("pay", order="a")
    assert len(bank.paid) == 2
    assert (again.success, again.audit.end) == (False, "replayed")
    assert "half way" in again.text


async def test_a_call_with_invalid_arguments_does_not_claim_the_key(tmp_path: Path, desk: Desk) -> None:
    bank = Bank()
    async with open_pipeline(tmp_path, [bank.tool()], keyed=desk.keyed) as h:
        assert not (await h.call("pay", order="a", amount="much")).success
        assert (await h.call("pay", order="a", amount=1)).success


@pytest.mark.parametrize("how", ["by its id", "with its waiter"])
async def test_a_call_cancelled_while_running_is_never_repeated_automatically(
    tmp_path: Path, desk: Desk, how: str
) -> None:
    bank = Bank()
    bank.wait = asyncio.Event()
    async with open_pipeline(tmp_path, [bank.tool()], keyed=desk.keyed) as h:
        running = asyncio.ensure_future(h.call("pay", order="a"))
        await bank.entered.wait()
        if how == "by its id":
            assert h.pipeline.cancel_all() == 1
            assert not (await running).success
        else:
            running.cancel()
            await asyncio.wait((running,))
        bank.wait = None
        again = await h.call("pay", order="a")
        assert again.failure is not None
        assert (again.failure.failure_class, again.failure.reason) == (FailureClass.DIAGNOSTIC, "may_have_happened")
        assert "It may have had an effect" in again.text
    assert len(bank.paid) == 1


async def test_cancelling_a_waiting_call_does_not_affect_the_first_call(tmp_path: Path, desk: Desk) -> None:
    bank = Bank()
    bank.wait = asyncio.Event()
    async with open_pipeline(tmp_path, [bank.tool()], keyed=desk.keyed) as h:
        first = asyncio.ensure_future(h.call("pay", order="a"))
        await bank.entered.wait()
        second = asyncio.ensure_future(h.call("pay", order="a"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait((second,))
        bank.wait.set()
        assert (await first).success
        assert (await h.call("pay", order="a")).audit.end == "replayed"
    assert len(bank.paid) == 1


async def test_a_call_cancelled_before_it_starts_releases_the_key(tmp_path: Path, desk: Desk) -> None:
    bank = Bank()
    async with open_pipeline(tmp_path, [bank.tool()], keyed=desk.keyed) as h:
        for steps in range(12):
            going = asyncio.ensure_future(h.call("pay", order="a"))
            for _ in range(steps):
                await asyncio.sleep(0)
            going.cancel()
            await asyncio.wait((going,))
            if bank.paid:
                break
        result = await h.call("pay", order="a")
    assert len(bank.paid) == 1
    assert result.success or result.failure.reason == "may_have_happened"  # type: ignore[union-attr]


def test_a_key_expires_after_a_day(tmp_path: Path) -> None:
    clock = ManualClock()
    desk = Desk(tmp_path, clock)
    key = Key("ada", "pay", "1", "x")
    assert desk.ledger.claim(key).mine
    desk.ledger.done(key, ToolResult(success=True, output=1))
    clock.start += timedelta(hours=23.9)
    assert desk.ledger.claim(key).result is not None
    clock.start += timedelta(hours=0.2)
    assert desk.ledger.claim(key).mine
    desk.close()


KILLED = """
import asyncio, sys
from engine import Engine
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

@tool(idempotency_key_fields=("order",))
async def pay(order: str) -> str:
    "Pay."
    print("paying", flush=True)
    await asyncio.Event().wait()

async def main():
    async with Engine.open(sys.argv[1], sources=[StaticSource("mine", [pay])], packs=False, environ={}) as engine:
        await engine.call("pay", {"order": "a"})

asyncio.run(main())
"""


@pytest.mark.slow
async def test_after_its_engine_was_killed_a_keyed_call_is_reported_as_possibly_done(tmp_path: Path) -> None:
    bank = Bank()
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert await asyncio.to_thread(victim.stdout.readline) == "paying\n"
        victim.send_signal(signal.SIGKILL)
    sources = [StaticSource("mine", [bank.tool()])]
    async with Engine.open(tmp_path, sources=sources, packs=False, environ={}) as engine:
        for _ in range(2):
            result = await engine.call("pay", {"order": "a"})
            assert result.failure is not None
            assert result.failure.reason == "may_have_happened"
        assert (await engine.call("pay", {"order": "b"})).success
        assert len(os.listdir(tmp_path / "engines")) == 1
    assert bank.paid == [1]
    assert os.listdir(tmp_path / "engines") == []
