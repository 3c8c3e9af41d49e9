"""Makes the attempts of the escape suite with both kinds of process 1. It runs in the machine of scripts/aarch64.sh."""

import asyncio
import contextlib
import fcntl
import os
import platform
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sandbox.contract import Call, End, Job, SandboxError
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from sandbox.self_check.attempts.attempt import Attempt, AttemptFamily
from sandbox.self_check.attempts.stage import Stage
from sandbox.self_check.attempts.suite import attempts_on
from sandbox.self_check.attempts.trial import put
from sandbox.self_check.check import Missing

_SIOCSIFFLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_LONGEST_S = 180.0  # for one attempt; the emulated machine is some twenty times slower than a real one
_MORE_CPU = 12  # times the processor time of an attempt that must not end because of it
_USER = 1000
_SLOW = (AttemptFamily.EXHAUSTION,)
_ADD = Job(files={"m.py": b"def add(a, b): return a + b"}, call=Call("m.py", "add", {"a": 1, "b": 2}))


def attempts(families: Sequence[str]) -> list[Attempt]:
    """Return the attempts of these families; without families, of all that do not take a machine of usual speed."""
    chosen = attempts_on("namespace")
    return [_slowed(each) for each in chosen if (each.family in families if families else each.family not in _SLOW)]


def _slowed(attempt: Attempt) -> Attempt:
    """Return the attempt with the time that it needs here, unless it is about time."""
    if {End.CPU, End.TIMEOUT} & {*attempt.ends}:
        return attempt
    limits = attempt.limits
    more = replace(limits, cpu_s=_MORE_CPU * limits.cpu_s, wall_s=min(_LONGEST_S, _MORE_CPU * limits.wall_s))
    return replace(attempt, limits=more)


async def measure(config: NamespaceConfig, chosen: Sequence[Attempt]) -> int:
    """Make the attempts, print those that did not fail as they should, and return their number."""
    name = f"{'native' if config.native else 'python'} process 1, uid {os.geteuid()}"
    held = wrong = left_out = 0
    began = time.monotonic()
    with Stage("namespace") as stage:
        async with NamespaceSandbox(config) as box:
            for item in (await box.report()).items:
                print(f"{name}: {item.name}: {item.state} {item.detail}", flush=True)
            outcome = await box.run(_ADD)
            if (outcome.end, outcome.value) != (End.OK, 3):
                print(f"{name}: a job ended with {outcome}", flush=True)
                wrong += 1
            for attempt in chosen:
                try:
                    async with asyncio.timeout(_LONGEST_S):
                        trial = await put(box, attempt, stage)
                except Missing:
                    left_out += 1
                    continue
                except (SandboxError, TimeoutError) as problem:
                    if "not installed" in str(problem):
                        left_out += 1
                        continue
                    print(f"{name}: {attempt.name}: {type(problem).__name__}: {problem}", flush=True)
                    wrong += 1
                    continue
                held += trial.held
                if not trial.held:
                    print(f"{name}: {attempt.name}: {'; '.join(trial.wrong)}", flush=True)
                    wrong += 1
    print(
        f"{name}: {held} failed as they should, {wrong} did not, {left_out} left out; {time.monotonic() - began:.0f} s"
    )
    return wrong


def as_user(config: NamespaceConfig, chosen: Sequence[Attempt]) -> int:
    """Make the attempts as an ordinary user, in a process of its own; return how many did not fail as they should."""
    pid = os.fork()
    if pid == 0:
        wrong = 1
        with contextlib.suppress(Exception):
            os.setgroups([])
            os.setgid(_USER)
            os.setuid(_USER)
            os.environ["HOME"] = "/tmp"
            wrong = asyncio.run(measure(config, chosen))
        os._exit(min(wrong, 100))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    """Return the number of attempts that did not fail as they should."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _UP_AND_RUNNING))
    families = [each for each in Path("families").read_text(encoding="utf-8").split("\n") if each]
    if unknown := {*families} - {*AttemptFamily}:
        print(f"no such family: {', '.join(sorted(unknown))}. There are: {', '.join(AttemptFamily)}", flush=True)
        return 1
    chosen = attempts(families)
    # Linux can map the owner of files on a tmpfs from 6.3 on, so with an older kernel root cannot share a workspace here.
    old = tuple(map(int, platform.release().split(".")[:2])) < (6, 3)
    in_workspaces = [each for each in chosen if each.workspace is not None] if old else []
    others = [each for each in chosen if each not in in_workspaces]
    wrong = 0
    for native in (True, False):
        config = NamespaceConfig(native=native)
        wrong += asyncio.run(measure(config, others))
        wrong += as_user(config, in_workspaces) if in_workspaces else 0
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(), 100))
