"""Nothing of a kernel is left when it ends, or when its engine ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.kernels.spec import CellLimits
from sandbox.linux import cgroups
from tests.descriptors import open_descriptors
from tests.eventually import eventually, eventually_sync
from tests.sandbox.kernels.starting import Start
from tests.sandbox.test_cleanup import marked, mounts, supervisors_of

pytestmark = pytest.mark.spec("KERN-1", "BOX-4")

CHILD = "import subprocess; child = subprocess.Popen(['sleep', '{mark}'], start_new_session=True)"
ENGINE = """
import asyncio, sys
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import KernelOwner
from sandbox.namespace.backend import NamespaceSandbox

async def main():
    async with NamespaceSandbox() as box, KernelPool(box, PoolConfig(warm=1)) as pool:
        cells = await asyncio.gather(*(pool.run(KernelOwner("local", agent), sys.argv[1]) for agent in ("ann", "bob")))
        print("ready" if all(cell.ok for cell in cells) else cells, flush=True)
        await asyncio.gather(*(pool.run(KernelOwner("local", agent), "while True: print(1)") for agent in ("ann", "bob")))

asyncio.run(main())
"""


@pytest.mark.asyncio(loop_scope="module")
async def test_killing_a_kernel_kills_the_processes_its_cells_started(start: Start) -> None:
    mark = f"{os.getpid()}.11"
    kernel, talk = await start()
    assert (await talk.run(CHILD.format(mark=mark), CellLimits())).ok
    assert marked(mark)
    await kernel.kill()
    assert not marked(mark)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_kernel_that_exits_takes_the_processes_its_cells_started_with_it(start: Start) -> None:
    mark = f"{os.getpid()}.12"
    kernel, talk = await start()
    assert (await talk.run(CHILD.format(mark=mark), CellLimits())).ok
    await talk.run("import os; os._exit(0)", CellLimits())
    await kernel.gone()
    assert not marked(mark)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_kernel_leaves_no_descriptor_in_the_engine(start: Start) -> None:
    async def once() -> None:
        kernel, talk = await start()
        await talk.run("1", CellLimits())
        talk.close()
        kernel.forget()
        await kernel.kill()

    counts = []
    for _ in range(3):
        await once()
        counts.append(len(open_descriptors()))
    for _ in range(5):
        await once()
    # The sandbox may have one or two more warm boxes. One leaked descriptor for each kernel would be five.
    await eventually(lambda: len(open_descriptors()) <= max(counts) + 4)


@pytest.mark.parametrize("run", range(3))
def test_kill_9_of_the_engine_leaves_nothing_of_its_kernels(run: int, tmp_path: Path) -> None:
    mark = f"{os.getpid()}.88{run}"
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, CHILD.format(mark=mark)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert engine.stdout is not None
    assert engine.stdout.readline() == b"ready\n"
    assert len(marked(mark)) == 2
    supervisors = supervisors_of(engine.pid)
    assert supervisors
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    engine.stdout.close()
    eventually_sync(lambda: not marked(mark))
    eventually_sync(lambda: not any(os.path.exists(f"/proc/{pid}/cgroup") for pid in supervisors))
    cgroups.sweep(cgroups.find())
    assert not mounts(tmp_path)
    assert not list(tmp_path.iterdir())
