"""Checks that after a job has finished or was cancelled, nothing that it started or created is left on the host."""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from sandbox.contract import End, Job, Limits, Sandbox, Stream
from sandbox.self_check.check import Check, require

_DEADLINE_S = 10.0
_LOOK_EVERY_S = 0.02
_JOBS = 12
# The job starts a daemon with this code. The host recognizes the daemon by the mark in its last argument.
_DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(300)", "{mark}"])
    os._exit(0)
os.wait()
print("started", flush=True)
{then}
"""
_AFTER = ((End.OK, "'over'"), (End.TIMEOUT, "time.sleep(60)"), (End.KILLED, "os.kill(os.getpid(), 9)"))


def _marked(mark: str) -> list[str]:
    """Return the pids of all processes, including those in boxes, that have the mark on their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


async def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not await asyncio.to_thread(holds):
        require(time.monotonic() < deadline, what)
        await asyncio.sleep(_LOOK_EVERY_S)


async def _a_daemon_dies_with_its_job(end: End, then: str, sandbox: Sandbox) -> None:
    mark = f"knackbox-check-{secrets.token_hex(6)}"
    outcome = await sandbox.run(Job(code=_DAEMON.format(mark=mark, then=then), limits=Limits(wall_s=1)))
    require(outcome.end is end and b"started" in outcome.stdout, outcome)
    await _until(lambda: not _marked(mark), f"processes {_marked(mark)} are still running")


async def _cancelling_kills_the_tree_before_it_returns(sandbox: Sandbox) -> None:
    mark = f"knackbox-check-{secrets.token_hex(6)}"
    started = asyncio.Event()

    def listen(_stream: Stream, data: bytes) -> None:
        if b"started" in data:
            started.set()

    job = Job(code=_DAEMON.format(mark=mark, then="while True: pass"))
    running = asyncio.ensure_future(sandbox.run(job, on_output=listen))
    try:
        async with asyncio.timeout(_DEADLINE_S):
            await started.wait()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    left = await asyncio.to_thread(_marked, mark)
    require(not left, f"processes {left} are still running")


async def _what_a_listener_raises_reaches_the_caller(sandbox: Sandbox) -> None:
    def listen(_stream: Stream, _data: bytes) -> None:
        raise ZeroDivisionError

    try:
        outcome = await sandbox.run(Job(code="print(1, flush=True)\nwhile True: pass"), on_output=listen)
    except ZeroDivisionError:
        return
    require(False, outcome)


async def _many_at_once_are_all_served(sandbox: Sandbox) -> None:
    outcomes = await asyncio.gather(*(sandbox.run(Job(code=f"{number} * 2")) for number in range(_JOBS)))
    require([outcome.value for outcome in outcomes] == [2 * number for number in range(_JOBS)], outcomes)


async def _nothing_is_left_on_the_host(sandbox: Sandbox) -> None:
    """Run some jobs to fill the pool, then check that running the same jobs again leaves nothing on the host."""
    await _some_jobs(sandbox)
    before = dict(_host())
    await _some_jobs(sandbox)
    # A pool refills in the background, so its boxes come and go for a moment.
    await _until(lambda: dict(_host()).items() <= before.items(), f"{before} became {dict(_host())}")


async def _some_jobs(sandbox: Sandbox) -> None:
    for number in range(_JOBS):
        await sandbox.run(
            Job(
                code="import tempfile\nopen(f'{tempfile.gettempdir()}/x', 'w').write('x' * 1000)",
                files={"a": b"1"},
                stdin=b"2",
            )
        )
        if number % 4 == 0:
            running = asyncio.ensure_future(sandbox.run(Job(code="while True: pass")))
            await asyncio.sleep(0)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def _host() -> Iterator[tuple[str, object]]:
    yield "mounts", Path("/proc/self/mountinfo").read_text().count("\n")
    yield "temporary files", frozenset(path.name for path in Path(tempfile.gettempdir()).glob("knackbox*"))
    yield "children", len(_children())


def _children() -> list[str]:
    own = f"/proc/self/task/{os.getpid()}/children"
    with suppress(OSError):
        return Path(own).read_text().split()
    return []


CHECKS = (
    *(
        Check("ends", f"a daemon dies with its job ({end})", partial(_a_daemon_dies_with_its_job, end, then))
        for end, then in _AFTER
    ),
    Check(
        "ends",
        "when a cancelled run returns, no process of its job is left",
        _cancelling_kills_the_tree_before_it_returns,
    ),
    Check("ends", "an exception of the output listener reaches the caller", _what_a_listener_raises_reaches_the_caller),
    Check("leftovers", "all of many jobs started at once are run", _many_at_once_are_all_served),
    Check("leftovers", "nothing is left on the host", _nothing_is_left_on_the_host),
)
