"""Kernels by agent and name: separate, limited, culled, and every lost state reported exactly once."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from sandbox.contract import Busy, End, SandboxError
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import CellLimits, KernelSpec, NoKernel, Occupied
from sandbox.namespace.backend import NamespaceSandbox
from tests.sandbox.kernels.starting import ANN, BOB

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


async def test_each_agent_and_name_has_a_separate_state(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "x = 1")
    await pool.run(ANN, "x = 2", name="other")
    await pool.run(BOB, "x = 3")
    cells = [await pool.run(ANN, "print(x)"), await pool.run(ANN, "print(x)", name="other")]
    assert [cell.stdout for cell in (*cells, await pool.run(BOB, "print(x)"))] == ["1\n", "2\n", "3\n"]
    assert [kernel.name for kernel in pool.kernels(ANN)] == ["default", "other"]


async def test_concurrent_cells_run_one_after_the_other(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "seen = []")
    await asyncio.gather(*(pool.run(ANN, f"seen.append({n})") for n in range(10)))
    assert (await pool.run(ANN, "print(seen)")).stdout == f"{list(range(10))}\n"


@pytest.mark.spec("KERN-3")
async def test_a_ready_kernel_is_handed_out_and_replaced(make: Make) -> None:
    pool = make(warm=1)
    spec = KernelSpec()
    await pool.warm_up(spec)
    (ready,) = pool._ready.waiting[spec]
    await pool.run(ANN, "x = 1")
    assert pool.find(ANN).client is ready
    await pool.warm_up(spec)
    assert [client is not ready for client in pool._ready.waiting[spec]] == [True]


async def test_a_ready_kernel_that_died_waiting_is_not_handed_out(make: Make) -> None:
    pool = make(warm=1)
    await pool.warm_up(KernelSpec())
    (ready,) = pool._ready.waiting[KernelSpec()]
    await ready.kernel.kill()
    cell = await pool.run(ANN, "1")
    assert (cell.end, cell.state_lost) == (End.OK, None)


@pytest.mark.spec("KERN-5")
async def test_a_kernel_that_dies_in_a_cell_is_reported_there_and_not_again(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "x = 1")
    died = await pool.run(ANN, DIE)
    assert died.end is End.KILLED
    assert str(died.state_lost).startswith("State was lost")
    after = await pool.run(ANN, "x")
    assert after.error is not None
    assert (after.error.type, after.state_lost) == ("NameError", None)


@pytest.mark.spec("KERN-5")
async def test_a_kernel_that_dies_between_cells_is_reported_by_the_next_result_only(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "x = 1")
    client = pool.find(ANN).client
    assert client is not None
    cells = [await pool.run(ANN, "import os, threading; threading.Timer(0.3, os.kill, (os.getpid(), 9)).start()")]
    async with asyncio.timeout(10):
        await client.kernel.gone()
    cells += [await pool.run(ANN, "1") for _ in range(3)]
    assert [bool(cell.state_lost) for cell in cells] == [False, True, False, False]


@pytest.mark.spec("KERN-5")
async def test_a_loss_is_reported_by_the_next_result_if_its_own_was_not_delivered(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "x = 1")
    client = pool.find(ANN).client
    assert client is not None
    waiting = asyncio.ensure_future(pool.run(ANN, "import time; time.sleep(60)"))
    await asyncio.wait((waiting,), timeout=0.3)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await client.kernel.kill()
    losses = [(await pool.run(ANN, "1")).state_lost for _ in range(3)]
    assert [bool(loss) for loss in losses] == [True, False, False]


async def test_an_idle_kernel_is_ended_and_the_next_result_reports_it(make: Make) -> None:
    pool = make(idle_s=1e-6)
    await pool.run(ANN, "x = 1")
    await pool.cull()  # the pool's own timer may have ended it already
    assert pool.kernels(ANN) == []
    assert "without a cell" in str((await pool.run(ANN, "1")).state_lost)


async def test_a_kernel_with_a_running_cell_is_not_idle(make: Make) -> None:
    pool = make(idle_s=1e-6)
    await pool.warm_up(KernelSpec())
    cell = await pool.run(ANN, "import time; time.sleep(0.3); print('done')")
    assert (cell.stdout, cell.state_lost) == ("done\n", None)


async def test_the_kernels_of_an_agent_are_limited_and_the_error_names_them(make: Make) -> None:
    pool = make(per_agent=2)
    await asyncio.gather(pool.run(ANN, "1", name="a"), pool.run(ANN, "1", name="b"))
    with pytest.raises(SandboxError, match="a, b"):
        await pool.run(ANN, "1", name="c")
    await pool.find(ANN, "a").stop()
    assert (await pool.run(ANN, "1", name="c")).ok


async def test_the_kernels_of_all_agents_are_limited(make: Make) -> None:
    pool = make(most=1)
    await pool.run(ANN, "1")
    with pytest.raises(Busy):
        await pool.run(BOB, "1")
    assert pool.kernels(BOB) == []


async def test_a_stopped_kernel_starts_afresh_without_a_report(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "x = 1")
    await pool.find(ANN).stop()
    with pytest.raises(NoKernel, match="none is running"):
        pool.find(ANN)
    cell = await pool.run(ANN, "'x' in dir()")
    assert cell.outputs[0].data == {"text/plain": "False"}
    assert cell.state_lost is None


@pytest.mark.spec("KERN-5")
async def test_stopping_a_kernel_with_a_running_cell_ends_the_cell(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "1")
    running = asyncio.ensure_future(pool.run(ANN, "import time; time.sleep(60)", limits=CellLimits(wall_s=60)))
    await asyncio.sleep(0)
    await pool.find(ANN).stop()
    cell = await running
    assert cell.state_lost
    assert pool.kernels(ANN) == []


async def test_another_spec_for_the_same_name_is_refused(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "1")
    with pytest.raises(SandboxError, match="was started with a different spec"):
        await pool.run(ANN, "1", spec=KernelSpec(processes=32))


async def test_a_closed_pool_refuses_cells(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "1")
    await pool.aclose()
    with pytest.raises(SandboxError, match="closed"):
        await pool.run(ANN, "1")


async def test_a_kernel_stopped_by_somebody_else_is_reported_once(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "x = 1")
    await pool.find(ANN).stop("a person stopped it")
    losses = [(await pool.run(ANN, "1")).state_lost for _ in range(2)]
    assert ["a person stopped it" in str(loss) for loss in losses] == [True, False]


@pytest.mark.spec("KERN-5")
async def test_a_loss_is_reported_again_if_the_callers_block_raised(make: Make) -> None:
    pool = make()

    async def fail_before_delivery() -> None:
        async with pool.kernel(ANN).running(DIE) as cell:
            assert cell.state_lost
            raise ValueError("before delivery")

    with pytest.raises(ValueError, match="before delivery"):
        await fail_before_delivery()
    losses = [(await pool.run(ANN, "1")).state_lost for _ in range(2)]
    assert [bool(loss) for loss in losses] == [True, False]


@pytest.mark.spec("KERN-5")
async def test_an_undelivered_loss_is_reported_again_with_the_same_reasons(make: Make) -> None:
    pool = make()
    lost = (await pool.run(ANN, DIE)).state_lost
    assert lost
    pool.report_again(pool.kernel(ANN), lost)
    losses = [(await pool.run(ANN, "1")).state_lost for _ in range(2)]
    assert [losses[0].reasons, losses[1]] == [lost.reasons, None]


@pytest.mark.spec("KERN-5")
async def test_a_cancelled_cell_that_ignores_interrupts_is_killed_even_without_another_call(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "1")
    client = pool.find(ANN).client
    assert client is not None
    stubborn = "import time\nwhile True:\n    try: time.sleep(30)\n    except KeyboardInterrupt: pass"
    running = asyncio.ensure_future(pool.run(ANN, stubborn, limits=CellLimits(grace_s=0.3)))
    await asyncio.wait((running,), timeout=0.3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(20):
        await client.kernel.gone()


async def test_an_inspection_is_not_a_cell_and_does_not_count_as_use(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "x = 1")
    before = pool.find(ANN).last_used
    assert await pool.find(ANN).ask("__import__('IPython').display.JSON({'x': x})", 10) == {"x": 1}
    assert await pool.find(ANN).ask("'no JSON'", 10) is None
    assert await pool.find(ANN).ask("1 / 0", 10) is None
    assert pool.find(ANN).last_used == before
    cell = await pool.run(ANN, "x")
    assert cell.count == 2
    with pytest.raises(NoKernel):
        pool.find(ANN, "other")


async def test_an_endless_inspection_is_interrupted_and_the_state_kept(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "x = 1\ndef spin():\n    while True: pass")
    assert await pool.find(ANN).ask("spin()", 0.3) is None
    assert (await pool.run(ANN, "assert x == 1")).ok


async def test_a_busy_kernel_is_not_inspected(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "1")
    running = asyncio.ensure_future(pool.run(ANN, "import time; time.sleep(60)", limits=CellLimits(wall_s=60)))
    await asyncio.sleep(0)
    with pytest.raises(Occupied):
        await pool.find(ANN).ask("1", 1)
    assert [(kernel.name, kernel.idle) for kernel in pool.kernels()] == [("default", False)]
    await pool.find(ANN).stop()
    await running


async def test_the_memory_of_a_kernel_includes_its_children(make: Make) -> None:
    pool = make()
    await pool.run(ANN, "1")
    kernel = pool.find(ANN)
    before = kernel.memory_bytes
    await pool.run(
        ANN,
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable or 'python3', '-c', 'x = b\"x\" * (100 << 20); print(1, flush=True);"
        " input()'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\nchild.stdout.readline()",
    )
    after = kernel.memory_bytes
    assert before is not None
    assert after is not None
    assert after - before > 90 << 20
