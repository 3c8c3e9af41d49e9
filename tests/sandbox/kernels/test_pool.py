"""Kernels by agent and name: kept apart, counted, culled, and every lost state said exactly once."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from sandbox.contract import Busy, End, SandboxError
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import CellLimits, KernelSpec, Occupied
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-6")]

Make = Callable[..., KernelPool]
DIE = "import os; os.kill(os.getpid(), 9)"


@pytest_asyncio.fixture(loop_scope="module")
async def make(box: NamespaceSandbox) -> AsyncIterator[Make]:
    pools: list[KernelPool] = []

    def pool(**config: object) -> KernelPool:
        pools.append(KernelPool(box, PoolConfig(**{"warm": 0, **config})))  # type: ignore[arg-type]
        return pools[-1]

    yield pool
    for each in pools:
        await each.aclose()


async def test_a_name_keeps_its_state_and_others_have_their_own(make: Make) -> None:
    pool = make()
    await pool.run("ann", "x = 1")
    await pool.run("ann", "x = 2", name="other")
    await pool.run("bob", "x = 3")
    cells = [await pool.run("ann", "print(x)"), await pool.run("ann", "print(x)", name="other")]
    assert [cell.stdout for cell in (*cells, await pool.run("bob", "print(x)"))] == ["1\n", "2\n", "3\n"]
    assert pool.names("ann") == ["default", "other"]


async def test_cells_given_at_once_run_one_after_the_other(make: Make) -> None:
    pool = make()
    await pool.run("ann", "seen = []")
    await asyncio.gather(*(pool.run("ann", f"seen.append({n})") for n in range(10)))
    assert (await pool.run("ann", "print(seen)")).stdout == f"{list(range(10))}\n"


@pytest.mark.spec("KERN-3")
async def test_a_ready_kernel_is_handed_out_and_replaced(make: Make) -> None:
    pool = make(warm=1)
    spec = KernelSpec()
    await pool.warm_up(spec)
    (ready,) = pool._ready.waiting[spec]
    await pool.run("ann", "x = 1")
    assert pool._sessions["ann", "default"].live is ready
    await pool.warm_up(spec)
    assert [live is not ready for live in pool._ready.waiting[spec]] == [True]


async def test_a_ready_kernel_that_died_waiting_is_not_handed_out(make: Make) -> None:
    pool = make(warm=1)
    await pool.warm_up(KernelSpec())
    (ready,) = pool._ready.waiting[KernelSpec()]
    await ready.kernel.kill()
    cell = await pool.run("ann", "1")
    assert (cell.end, cell.state_lost) == (End.OK, "")


@pytest.mark.spec("KERN-5")
async def test_a_kernel_that_dies_in_a_cell_says_so_there_and_not_again(make: Make) -> None:
    pool = make()
    await pool.run("ann", "x = 1")
    died = await pool.run("ann", DIE)
    assert died.end is End.KILLED
    assert died.state_lost.startswith("State was lost")
    after = await pool.run("ann", "x")
    assert after.error is not None
    assert (after.error.type, after.state_lost) == ("NameError", "")


@pytest.mark.spec("KERN-5")
async def test_a_kernel_that_dies_between_cells_says_so_in_the_next_result_and_not_again(make: Make) -> None:
    pool = make()
    await pool.run("ann", "x = 1")
    live = pool._sessions["ann", "default"].live
    assert live is not None
    cells = [await pool.run("ann", "import os, threading; threading.Timer(0.3, os.kill, (os.getpid(), 9)).start()")]
    async with asyncio.timeout(10):
        await live.kernel.gone()
    cells += [await pool.run("ann", "1") for _ in range(3)]
    assert [bool(cell.state_lost) for cell in cells] == [False, True, False, False]


@pytest.mark.spec("KERN-5")
async def test_a_loss_is_kept_for_the_next_result_when_its_own_reached_nobody(make: Make) -> None:
    pool = make()
    await pool.run("ann", "x = 1")
    live = pool._sessions["ann", "default"].live
    assert live is not None
    waiting = asyncio.ensure_future(pool.run("ann", "import time; time.sleep(60)"))
    await asyncio.wait((waiting,), timeout=0.3)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await live.kernel.kill()
    told = [(await pool.run("ann", "1")).state_lost for _ in range(3)]
    assert [bool(text) for text in told] == [True, False, False]


async def test_an_idle_kernel_is_ended_and_the_next_result_says_so(make: Make) -> None:
    pool = make(idle_s=1e-6)
    await pool.run("ann", "x = 1")
    await pool.cull()  # its own timer may have been first
    assert pool.names("ann") == []
    assert "without a cell" in (await pool.run("ann", "1")).state_lost


async def test_a_kernel_with_a_running_cell_is_not_idle(make: Make) -> None:
    pool = make(idle_s=1e-6)
    await pool.warm_up(KernelSpec())
    cell = await pool.run("ann", "import time; time.sleep(0.3); print('done')")
    assert (cell.stdout, cell.state_lost) == ("done\n", "")


async def test_an_agent_has_only_so_many_and_is_told_their_names(make: Make) -> None:
    pool = make(per_agent=2)
    await asyncio.gather(pool.run("ann", "1", name="a"), pool.run("ann", "1", name="b"))
    with pytest.raises(SandboxError, match="a, b"):
        await pool.run("ann", "1", name="c")
    assert await pool.stop("ann", "a")
    assert (await pool.run("ann", "1", name="c")).ok


async def test_all_agents_together_have_only_so_many(make: Make) -> None:
    pool = make(most=1)
    await pool.run("ann", "1")
    with pytest.raises(Busy):
        await pool.run("bob", "1")
    assert pool.names("bob") == []


async def test_a_stopped_kernel_starts_fresh_and_nobody_is_told_what_he_asked_for(make: Make) -> None:
    pool = make()
    await pool.run("ann", "x = 1")
    assert await pool.stop("ann")
    assert not await pool.stop("ann")
    cell = await pool.run("ann", "'x' in dir()")
    assert cell.outputs[0].data == {"text/plain": "False"}
    assert cell.state_lost == ""


@pytest.mark.spec("KERN-5")
async def test_stopping_a_kernel_with_a_running_cell_ends_the_cell(make: Make) -> None:
    pool = make()
    await pool.run("ann", "1")
    running = asyncio.ensure_future(pool.run("ann", "import time; time.sleep(60)", limits=CellLimits(wall_s=60)))
    await asyncio.sleep(0)
    assert await pool.stop("ann")
    cell = await running
    assert cell.state_lost
    assert pool.names("ann") == []


async def test_another_spec_for_the_same_name_is_refused(make: Make) -> None:
    pool = make()
    await pool.run("ann", "1")
    with pytest.raises(SandboxError, match="has a different spec"):
        await pool.run("ann", "1", spec=KernelSpec(processes=32))


async def test_a_closed_pool_refuses(make: Make) -> None:
    pool = make()
    await pool.run("ann", "1")
    await pool.aclose()
    with pytest.raises(SandboxError, match="closed"):
        await pool.run("ann", "1")


async def test_a_kernel_that_somebody_else_stopped_is_told_of_once(make: Make) -> None:
    pool = make()
    await pool.run("ann", "x = 1")
    assert await pool.stop("ann", tell="a person stopped it")
    told = [(await pool.run("ann", "1")).state_lost for _ in range(2)]
    assert ["a person stopped it" in text for text in told] == [True, False]


@pytest.mark.spec("KERN-5")
async def test_a_loss_whose_block_ended_with_an_exception_was_told_to_nobody(make: Make) -> None:
    pool = make()

    async def half_way() -> None:
        async with pool.running("ann", DIE) as cell:
            assert cell.state_lost
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        await half_way()
    told = [(await pool.run("ann", "1")).state_lost for _ in range(2)]
    assert [bool(text) for text in told] == [True, False]


@pytest.mark.spec("KERN-5")
async def test_a_loss_that_is_owed_is_said_by_the_next_result_in_the_same_words(make: Make) -> None:
    pool = make()
    lost = (await pool.run("ann", DIE)).state_lost
    assert lost
    pool.owe("ann", "default", lost)
    told = [(await pool.run("ann", "1")).state_lost for _ in range(2)]
    assert told == [lost, ""]


@pytest.mark.spec("KERN-5")
async def test_a_cancelled_cell_that_goes_on_ends_with_its_kernel_though_nobody_calls_again(make: Make) -> None:
    pool = make()
    await pool.run("ann", "1")
    live = pool._sessions["ann", "default"].live
    assert live is not None
    stubborn = "import time\nwhile True:\n    try: time.sleep(30)\n    except KeyboardInterrupt: pass"
    running = asyncio.ensure_future(pool.run("ann", stubborn, limits=CellLimits(grace_s=0.3)))
    await asyncio.wait((running,), timeout=0.3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(20):
        await live.kernel.gone()


async def test_what_is_asked_is_no_cell_and_keeps_no_kernel_from_being_idle(make: Make) -> None:
    pool = make()
    await pool.run("ann", "x = 1")
    before = pool._sessions["ann", "default"].used
    assert await pool.ask("ann", "default", "__import__('IPython').display.JSON({'x': x})", 10) == {"x": 1}
    assert await pool.ask("ann", "default", "'no JSON'", 10) is None
    assert await pool.ask("ann", "default", "1 / 0", 10) is None
    assert pool._sessions["ann", "default"].used == before
    cell = await pool.run("ann", "x")
    assert cell.count == 2
    with pytest.raises(LookupError):
        await pool.ask("ann", "other", "1", 10)


async def test_an_endless_question_is_interrupted_and_costs_no_state(make: Make) -> None:
    pool = make()
    await pool.run("ann", "x = 1\ndef spin():\n    while True: pass")
    assert await pool.ask("ann", "default", "spin()", 0.3) is None
    assert (await pool.run("ann", "assert x == 1")).ok


async def test_a_busy_kernel_is_not_asked(make: Make) -> None:
    pool = make()
    await pool.run("ann", "1")
    running = asyncio.ensure_future(pool.run("ann", "import time; time.sleep(60)", limits=CellLimits(wall_s=60)))
    await asyncio.sleep(0)
    with pytest.raises(Occupied):
        await pool.ask("ann", "default", "1", 1)
    assert [(state.name, state.busy) for state in pool.states()] == [("default", True)]
    await pool.stop("ann")
    await running


async def test_a_kernels_state_tells_its_memory_with_its_children(make: Make) -> None:
    pool = make()
    await pool.run("ann", "1")
    (before,) = pool.states()
    await pool.run(
        "ann",
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable or 'python3', '-c', 'x = b\"x\" * (100 << 20); print(1, flush=True);"
        " input()'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\nchild.stdout.readline()",
    )
    (after,) = pool.states()
    assert before.memory_bytes is not None
    assert after.memory_bytes is not None
    assert after.memory_bytes - before.memory_bytes > 90 << 20
