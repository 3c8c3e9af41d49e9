"""Back-pressure: at most N boxes, a queue that is fair between agents, and a clear Busy when it is full."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.contract import Busy, Job
from sandbox.fair_slots import FairSlots
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

pytestmark = pytest.mark.spec("BOX-7")


async def test_agents_take_turns_however_many_jobs_each_has_sent() -> None:
    slots, order = FairSlots(1, 100), list[str]()

    async def job(agent: str) -> None:
        async with slots.slot(agent):
            order.append(agent)
            await asyncio.sleep(0)

    await asyncio.gather(*(job("greedy") for _ in range(6)), job("modest"), job("modest"), job("shy"))
    assert order[:6] == ["greedy", "greedy", "modest", "shy", "greedy", "modest"]
    assert order[6:] == ["greedy"] * 3


@given(
    agents=st.lists(st.sampled_from("abc"), max_size=30), slots=st.integers(1, 4), cancelled=st.sets(st.integers(0, 29))
)
async def test_no_slot_is_lost_or_doubled_whoever_gives_up(agents: list[str], slots: int, cancelled: set[int]) -> None:
    fair, now, most = FairSlots(slots, 100), 0, 0

    async def job(agent: str) -> None:
        nonlocal now, most
        async with fair.slot(agent):
            now += 1
            most = max(most, now)
            try:
                await asyncio.sleep(0)
            finally:
                now -= 1

    tasks = [asyncio.ensure_future(job(agent)) for agent in agents]
    await asyncio.sleep(0)
    for index in cancelled:
        if index < len(tasks):
            tasks[index].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most <= slots
    now = most = 0
    await asyncio.gather(*(job("after") for _ in range(slots)))
    assert most == slots


async def test_a_full_queue_says_when_to_come_again() -> None:
    async with NamespaceSandbox(NamespaceConfig(max_boxes=1, max_waiting=1)) as box:
        first = asyncio.ensure_future(box.run(Job(code="import time; time.sleep(20)")))
        second = asyncio.ensure_future(box.run(Job(code="2")))
        await asyncio.sleep(0)
        with pytest.raises(Busy) as refusal:
            await box.run(Job(code="3"))
        assert 0 < refusal.value.retry_after < 60
        assert not refusal.value.may_have_started
        first.cancel()
        assert (await second).value == 2


async def test_a_template_is_replaced_after_its_forks_and_its_last_job_ends_in_peace() -> None:
    async with NamespaceSandbox(NamespaceConfig(warm=1, forks_per_template=3)) as box:
        slow = asyncio.ensure_future(box.run(Job(code="import time; time.sleep(0.5); 'slow'")))
        values = [(await box.run(Job(code="import os; os.getpid()"))).end for _ in range(12)]
        assert set(values) == {"ok"}
        assert (await slow).value == "slow"
