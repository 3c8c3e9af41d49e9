"""Limits that need a control group: memory charged to no process, CPU time of unreaped children. Needs root."""

import os
import signal
from pathlib import Path

import pytest

from sandbox.contract import End, Job, Limits, State
from sandbox.linux import cgroups
from sandbox.namespace.backend import NamespaceSandbox
from tests.eventually import eventually
from tests.sandbox.test_cleanup import supervisors_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.services]
MB = 1 << 20


def groups() -> list[Path]:
    layout = cgroups.find()
    assert layout is not None, "no writable memory controller: run this as root on a machine that has one"
    return [path for folder in layout.folders for path in Path(folder, "knackbox").glob("*/*") if path.is_dir()]


@pytest.mark.spec("BOX-1")
async def test_each_box_has_a_group_while_it_lives_and_none_afterwards(box: NamespaceSandbox) -> None:
    report = await box.report()
    assert {item.name: item.state for item in report.items}["cgroup"] is State.ENFORCED
    await box.run(Job(code="1"))
    assert groups()
    async with NamespaceSandbox() as other:
        await other.run(Job(code="1"))
    assert all(str(os.getpid()) not in path.parent.name for path in groups())


@pytest.mark.spec("BOX-3")
async def test_memory_that_no_process_maps_is_limited(box: NamespaceSandbox) -> None:
    code = """
import mmap
kept = []
for _ in range(64):
    page = mmap.mmap(-1, 16 << 20)
    page.write(b'x' * (16 << 20))
    page.madvise(mmap.MADV_DONTNEED)
    kept.append(page)
"""
    outcome = await box.run(Job(code=code, limits=Limits(memory_bytes=96 * MB, disk_bytes=16 * MB)))
    assert outcome.end is End.MEMORY


@pytest.mark.spec("BOX-3")
async def test_cpu_time_of_children_nobody_waits_for_is_counted(box: NamespaceSandbox) -> None:
    code = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.1
        while time.process_time() < end: pass
        os._exit(0)
    time.sleep(0.1)
"""
    outcome = await box.run(Job(code=code, limits=Limits(cpu_s=1, wall_s=60)))
    assert outcome.end is End.CPU
    assert outcome.usage.cpu_s >= 1


@pytest.mark.spec("BOX-4")
async def test_groups_of_a_killed_supervisor_are_swept() -> None:
    async with NamespaceSandbox() as box:
        await box.run(Job(code="1"))
        (supervisor,) = supervisors_of(os.getpid())[-1:]
        os.kill(supervisor, signal.SIGKILL)
    await eventually(lambda: all(not g.parent.name.startswith(f"{supervisor}-") for g in groups()))
