"""Guards refuse calls of unavailable services, retries beyond the budget, and repeated mistakes."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.contract.context import MissingService
from engine.contract.failure import Failure, FailureClass, ToolFailure
from engine.contract.guard import Guard, GuardRequest
from engine.contract.result import ToolCall
from engine.contract.spec import Annotations, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.outcome import failure_of
from engine.recovery.breaker import OPENS_AFTER, RESTS_S, Breakers
from engine.recovery.budget import CAPACITY, COST, TIMEOUT_COST, RetryBudget
from engine.recovery.repeats import FORGOTTEN_AFTER_S, Repeats
from engine.recovery.retry import Retrier
from engine.registry.decorate import tool
from sandbox.contract import End, Outcome, SandboxError
from tests.dispatch.pipeline_fixture import ManualClock, PipelineFixture, open_pipeline

pytestmark = pytest.mark.spec("FAIL-7")
READS = Annotations(read_only=True)


class Service:
    """A service that is up or down."""

    def __init__(self) -> None:
        self.up = False
        self.asked = 0
        self.gate: asyncio.Event | None = None

    async def answer(self) -> str:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if not self.up:
            raise ConnectionError("refused")
        return "here"


def asking(service: Service, name: str = "ask", annotations: Annotations | None = None) -> Any:
    @tool(name=name, annotations=annotations)
    async def ask(n: int = 0) -> str:
        """Ask the service."""
        return await service.answer()

    return ask


def reason(result: Any) -> str:
    assert result.failure is not None
    return str(result.failure.reason)


async def test_a_tool_whose_service_is_down_is_blocked_and_then_tried_with_one_call(tmp_path: Path) -> None:
    clock, service, other = ManualClock(), Service(), Service()
    other.up = True
    tools = [asking(service), asking(other, "other")]
    async with open_pipeline(tmp_path, tools, clock=clock, guards=(Breakers(clock),)) as h:
        for n in range(OPENS_AFTER):
            assert reason(await h.call("ask", n=n)) == "unreachable"
        refused = await h.call("ask")
        assert reason(refused) == "resting"
        assert refused.failure is not None
        assert refused.failure.retry_after == RESTS_S
        assert refused.failure.failure_class is FailureClass.RETRYABLE
        assert "Nothing was run" in refused.text
        assert service.asked == OPENS_AFTER
        assert (await h.call("other")).success

        clock.seconds += RESTS_S
        service.up, service.gate = True, asyncio.Event()
        probe = asyncio.ensure_future(h.call("ask"))
        await asyncio.sleep(0)
        assert "another call is trying it" in (await h.call("ask")).text
        service.gate.set()
        assert (await probe).success
        assert (await h.call("ask")).success


async def test_a_failed_trial_call_blocks_the_tool_again(tmp_path: Path) -> None:
    clock, service = ManualClock(), Service()
    async with open_pipeline(tmp_path, [asking(service)], clock=clock, guards=(Breakers(clock),)) as h:
        for n in range(OPENS_AFTER):
            await h.call("ask", n=n)
        clock.seconds += RESTS_S
        assert reason(await h.call("ask")) == "unreachable"
        assert reason(await h.call("ask")) == "resting"
        assert service.asked == OPENS_AFTER + 1


async def test_a_cancelled_trial_call_is_inconclusive(tmp_path: Path) -> None:
    clock, service = ManualClock(), Service()
    async with open_pipeline(tmp_path, [asking(service)], clock=clock, guards=(Breakers(clock),)) as h:
        for n in range(OPENS_AFTER):
            await h.call("ask", n=n)
        clock.seconds += RESTS_S
        service.up, service.gate = True, asyncio.Event()
        probe = asyncio.ensure_future(h.call("ask"))
        await asyncio.sleep(0)
        assert h.pipeline.cancel_all() == 1
        await probe
        service.gate = None
        assert (await h.call("ask")).success


async def test_mistakes_of_the_caller_do_not_open_the_breaker(tmp_path: Path) -> None:
    @tool()
    async def fail(n: int) -> None:
        """Fail."""
        raise ValueError("no such page")

    clock = ManualClock()
    async with open_pipeline(tmp_path, [fail], clock=clock, guards=(Breakers(clock),)) as h:
        for n in range(OPENS_AFTER + 1):
            assert reason(await h.call("fail", n=n)) == "invalid_value"


async def test_retries_use_up_a_budget_so_that_a_dead_service_is_not_flooded(tmp_path: Path) -> None:
    clock, service, budget = ManualClock(), Service(), RetryBudget()
    retrier = Retrier(sleep=clock.sleep, budget=budget)
    async with open_pipeline(
        tmp_path, [asking(service, annotations=READS)], clock=clock, guards=(budget,), retrier=retrier
    ) as h:
        await h.call("ask")
        assert (service.asked, budget.tokens) == (3, CAPACITY - 2 * COST)
        while budget.tokens >= COST:
            await h.call("ask")
        before = service.asked
        await h.call("ask")
        assert service.asked == before + 1  # no repeat is left
        service.up = True
        for _ in range(COST):
            assert (await h.call("ask")).success
        assert budget.tokens == COST


def test_a_retry_after_a_timeout_costs_more_and_the_budget_never_becomes_negative() -> None:
    budget = RetryBudget(capacity=TIMEOUT_COST + COST - 1)
    assert budget.take(Failure(FailureClass.RETRYABLE, "timeout"))
    assert not budget.take(Failure(FailureClass.RETRYABLE, "unreachable"))
    assert budget.tokens == COST - 1


def failing(name: str = "look", annotations: Annotations | None = None) -> tuple[Any, list[Any]]:
    asked: list[Any] = []

    @tool(name=name, annotations=annotations or READS)
    async def look(path: str, deep: bool = False) -> str:
        """Look at a page."""
        asked.append(path)
        raise ValueError(f"{path} is not there")

    return look, asked


@tool()
async def write(path: str) -> str:
    """Write a page."""
    return path


async def test_a_call_that_failed_twice_is_refused_with_advice(tmp_path: Path) -> None:
    look, asked = failing()
    clock = ManualClock()
    async with open_pipeline(tmp_path, [look, write], clock=clock, guards=(Repeats(clock),)) as h:
        for _ in range(2):
            assert reason(await h.call("look", path="a", deep=False)) == "invalid_value"
        third = await h.call("look", deep=False, path="a")
        assert reason(third) == "repeated"
        assert "Change the arguments or the approach" in third.text
        assert asked == ["a", "a"]
        assert reason(await h.call("look", path="b")) == "invalid_value"


async def test_after_a_successful_change_the_same_call_is_admitted_again(tmp_path: Path) -> None:
    look, asked = failing()
    clock = ManualClock()
    async with open_pipeline(tmp_path, [look, write], clock=clock, guards=(Repeats(clock),)) as h:
        for _ in range(3):
            await h.call("look", path="a")
        assert (await h.call("write", path="a")).success
        assert reason(await h.call("look", path="a")) == "invalid_value"
        assert len(asked) == 3


async def test_counted_failures_expire_and_are_separate_for_each_agent(tmp_path: Path) -> None:
    look, _ = failing()
    clock = ManualClock()
    async with open_pipeline(tmp_path, [look], clock=clock, guards=(Repeats(clock),)) as h:
        for _ in range(3):
            last = await h.call("look", path="a")
        assert reason(last) == "repeated"
        assert reason(await as_agent(h, "other", "look", path="a")) == "invalid_value"
        clock.seconds += FORGOTTEN_AFTER_S + 1
        assert reason(await h.call("look", path="a")) == "invalid_value"


async def as_agent(h: PipelineFixture, agent: str, name: str, **arguments: Any) -> Any:
    return await h.pipeline.call(ToolCall(name, arguments), Turn(agent=agent))


async def test_transient_failures_do_not_cause_a_call_to_be_refused(tmp_path: Path) -> None:
    clock, service = ManualClock(), Service()
    async with open_pipeline(
        tmp_path, [asking(service, annotations=READS)], clock=clock, guards=(Repeats(clock),)
    ) as h:
        for _ in range(3):
            assert reason(await h.call("ask")) == "unreachable"


@pytest.mark.spec("FAIL-7")
@pytest.mark.parametrize(
    "shortage",
    [
        lambda: failure_of(Outcome(End.KILLED)),
        lambda: SandboxError("The box ended before its job.", may_have_started=True),
        lambda: SandboxError("No box can be started.", remedy="See `knackbox doctor`.", may_have_started=True),
        lambda: OSError(errno.EMFILE, "Too many open files"),
        lambda: OSError(errno.ENOSPC, "No space left on device"),
        lambda: MissingService("Scratchpad is not available."),
    ],
    ids=["killed", "box", "no box", "descriptors", "disk", "service"],
)
async def test_failures_caused_by_the_engine_do_not_cause_a_call_to_be_refused(
    tmp_path: Path, shortage: Callable[[], Exception]
) -> None:
    short = [True]

    @tool()
    async def compute() -> int:
        """Compute."""
        if short:
            raise shortage()
        return 42

    clock = ManualClock()
    async with open_pipeline(tmp_path, [compute], clock=clock, guards=(Repeats(clock),)) as h:
        for _ in range(4):
            assert reason(await h.call("compute")) != "repeated"
        short.clear()
        assert (await h.call("compute")).output == 42


async def test_a_guard_may_wait_and_only_guards_that_admitted_a_call_are_notified_of_its_end(tmp_path: Path) -> None:
    heard: list[tuple[str, str, bool]] = []

    class Asking(Guard):
        def __init__(self, name: str, *, refuses: bool = False) -> None:
            self.name = name
            self.refuses = refuses

        def admit(self, request: GuardRequest) -> Awaitable[None] | None:
            return self.wait(request)

        async def wait(self, request: GuardRequest) -> None:
            await asyncio.sleep(0)
            if self.refuses:
                raise ToolFailure("No.", failure_class=FailureClass.FATAL, reason="denied", may_have_started=False)

        def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
            heard.append((self.name, failure.reason if failure else "", ran))

    guards = (Asking("first"), Asking("second", refuses=True), Asking("third"))
    async with open_pipeline(tmp_path, [write], guards=guards) as h:
        assert reason(await h.call("write", path="a")) == "denied"
    assert heard == [("first", "denied", False)]


async def test_a_guard_is_asked_only_about_tools_that_concern_it(tmp_path: Path) -> None:
    heard: list[str] = []

    class OfWrites(Guard):
        def concerns(self, spec: ToolSpec) -> bool:
            return spec.name == "write"

        def admit(self, request: GuardRequest) -> None:
            heard.append(f"asked about {request.spec.name}")

        def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
            heard.append(f"{request.spec.name} ended")

    class OfEnds(Guard):
        def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
            heard.append(f"{request.spec.name} ended, too")

    look, _ = failing()
    async with open_pipeline(tmp_path, [look, write], guards=(OfWrites(), OfEnds())) as h:
        await h.call("look", path="a")
        await h.call("write", path="a")
    assert heard == ["look ended, too", "asked about write", "write ended", "write ended, too"]
