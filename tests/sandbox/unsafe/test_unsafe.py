"""The backend without a sandbox: what it refuses, and that a cancelled run leaves nothing open."""

import asyncio
import contextlib
import os
import threading

import pytest

from sandbox import worker
from sandbox.contract import Destination, End, Job, Language, Limits, SandboxError
from sandbox.unsafe import UnsafeSandbox
from sandbox.wire.report import parse_report


@pytest.mark.spec("BOX-2", "BOX-10", "BOX-11")
@pytest.mark.parametrize("job", [Job(egress=(Destination("a.example", 1),)), Job(requirements=("six",))])
async def test_jobs_that_need_a_sandbox_are_refused(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SandboxError, match="Run the job in the namespace sandbox") as refused:
        await UnsafeSandbox().run(job)
    assert refused.value.remedy
    assert not refused.value.may_have_started
    assert caplog.records == []


def open_pipes() -> set[str]:
    found = set()
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
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


async def test_the_time_limit_is_still_enforced() -> None:
    slow = await UnsafeSandbox().run(Job(language=Language.BASH, code="sleep 1000", limits=Limits(wall_s=0.2)))
    assert slow.end is End.TIMEOUT


@pytest.mark.parametrize("attempt", range(5))
async def test_unread_output_does_not_delay_the_end(attempt: int) -> None:
    loud = await UnsafeSandbox().run(Job(language=Language.BASH, code="yes", limits=Limits(output_bytes=1000)))
    assert loud.end is End.OUTPUT


@pytest.mark.spec("CALL-14")
async def test_an_answer_is_decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def recorded(answer: bytes) -> worker.Message | None:
        threads.append(threading.current_thread() is not threading.main_thread())
        return parse_report(answer)

    monkeypatch.setattr("sandbox.unsafe.backend.parse_report", recorded)
    outcome = await UnsafeSandbox().run(Job(code="list(range(90_000))"))
    assert (outcome.end, len(outcome.value)) == (End.OK, 90_000)
    assert threads == [True]


FORGES = """
import json, os, sys
answer = json.dumps({"end": "ok", "exit_code": 0, "value": [[] for _ in range(1_000_000)]}).encode()
frame = len(answer).to_bytes(4, "big") + bytes(8) + answer
for fd in range(3, 1024):
    try:
        os.write(fd, frame)
    except OSError:
        pass
os._exit(0)
"""


@pytest.mark.spec("CALL-14")
async def test_an_answer_with_too_many_values_is_never_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.unsafe.backend.parse_report", pytest.fail)
    with pytest.raises(SandboxError, match="too many values") as refused:
        await UnsafeSandbox().run(Job(code=FORGES))
    assert refused.value.may_have_started
