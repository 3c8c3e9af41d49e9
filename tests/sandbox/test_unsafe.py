"""No sandbox at all: what it refuses, and that a run it is told to stop leaves nothing open."""

import asyncio
import contextlib
import os

import pytest

from sandbox.contract import Destination, End, Job, Language, Limits, SandboxError
from sandbox.unsafe import UnsafeSandbox


@pytest.mark.spec("BOX-2", "BOX-10", "BOX-11")
@pytest.mark.parametrize("job", [Job(egress=(Destination("a.example", 1),)), Job(requirements=("six",))])
async def test_what_only_a_sandbox_can_keep_is_refused(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SandboxError, match="Run it in the namespace sandbox") as refused:
        await UnsafeSandbox().run(job)
    assert refused.value.remedy
    assert not refused.value.may_have_started
    assert caplog.records == []


def open_pipes() -> set[str]:
    found = set()
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.add(os.readlink(f"/proc/self/fd/{each}"))
    return {each for each in found if each.startswith("pipe:")}


@pytest.mark.spec("BOX-4")
@pytest.mark.parametrize("once", [True, False], ids=["once", "again and again"])
async def test_a_run_that_is_cancelled_leaves_no_pipe_open(once: bool) -> None:
    before = open_pipes()
    ready = asyncio.Event()
    job = Job(language=Language.BASH, code="sleep 1000 & echo ready; wait")
    running = asyncio.ensure_future(UnsafeSandbox().run(job, on_output=lambda *_: ready.set()))
    await asyncio.wait_for(ready.wait(), 20)
    assert open_pipes() > before
    running.cancel()
    while not running.done():
        await asyncio.sleep(0)
        if not once:
            running.cancel()
    assert running.cancelled()
    assert open_pipes() == before


async def test_time_is_bounded_all_the_same() -> None:
    slow = await UnsafeSandbox().run(Job(language=Language.BASH, code="sleep 1000", limits=Limits(wall_s=0.2)))
    assert slow.end is End.TIMEOUT


@pytest.mark.parametrize("attempt", range(5))
async def test_output_that_nobody_reads_any_more_does_not_hold_up_the_end(attempt: int) -> None:
    loud = await UnsafeSandbox().run(Job(language=Language.BASH, code="yes", limits=Limits(output_bytes=1000)))
    assert loud.end is End.OUTPUT
