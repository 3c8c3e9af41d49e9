"""Runs an engine through thousands of jobs while killing parts of it at random, and reports what is left.

It runs as a separate process, the subreaper of everything it starts, so that processes that outlive their parent become
its children. As root it also has its own network and mount namespaces, so that sockets and mounts of others are not
counted. Arguments: the number of runs, the seed, an empty folder. It prints a `Report` as one line of JSON.
"""

import contextlib
import ctypes
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.linux import syscalls
from tests.sandbox.soak import residue

BATCH = 40
CLEAN = 8  # jobs without kills before each check of the engine
KILLS = ("code", "box", "maker", "template", "supervisor", "engine")  # maker: the program that creates empty boxes
_TRIES = 20
_PR_SET_CHILD_SUBREAPER = 36
_DEADLINE_S = 30.0
_ROOT = Path(__file__).parents[3]


@dataclass
class Report:
    """The report of a run.

    Attributes:
        kills: The number of kills by kind of process.
        ends: How jobs ended while processes were killed.
        clean_ends: How jobs ended while nothing was killed.
        left: What was left at the end, by kind.
        descriptors: The numbers of descriptors of one engine, counted while it was idle.
        memory_kib: [runs so far, resident memory] of that engine.
    """

    seed: int
    runs: int = 0
    engines: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    clean_ends: Counter[str] = field(default_factory=Counter)
    namespaces_seen: int = 0
    left: dict[str, list[str]] = field(default_factory=dict)
    descriptors: list[int] = field(default_factory=list)
    memory_kib: list[tuple[int, int]] = field(default_factory=list)


class Killed(Exception):
    """The driver has killed the engine."""


class Soak:
    """One soak test. `folder` becomes the engine's temporary folder and its workspace."""

    def __init__(self, runs: int, seed: int, folder: Path) -> None:
        self.report = Report(seed)
        self._runs = runs
        self._random = random.Random(seed)
        self._workspace, self._temporary = folder / "workspace", folder / "tmp"
        self._workspace.mkdir()
        self._temporary.mkdir()
        self._seen = residue.Seen()
        self._engine: subprocess.Popen[bytes] | None = None
        self._victim = ""  # "engine" once the driver has killed it

    def run(self) -> Report:
        """Make half of the runs in one engine that is not killed, and half in engines that are."""
        mounts, sockets = residue.mounts(), residue.unix_sockets()
        self._start()
        while self.report.runs < self._runs // 2:
            self._kill_during(KILLS[:-1])
            self._clean_batch()
            self._look_at_engine()
        while self.report.runs < self._runs:
            try:
                self._kill_during(KILLS)
            except Killed:
                self._nothing_lives()
                self._start()
        self._clean_batch()  # run by an engine that was started after the last kill and removes what that kill left
        self._stop()
        self._nothing_lives()
        self._look_for_residue(mounts, sockets)
        return self.report

    def _start(self) -> None:
        self.report.engines += 1
        self._engine = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.soak.engine", str(self._workspace)],
            cwd=_ROOT,
            env={**os.environ, "TMPDIR": str(self._temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # so that select sees everything that has arrived
        )
        self._batch(1, ())

    def _stop(self) -> None:
        """End the engine normally: it closes its sandbox at the end of its input."""
        assert self._engine is not None
        self._engine.communicate(timeout=_DEADLINE_S)
        if self._engine.returncode:
            raise AssertionError(f"the engine exited with {self._engine.returncode}")

    def _kill_during(self, targets: tuple[str, ...]) -> None:
        """Run a batch of jobs with some kills.

        Raises:
            Killed: The engine was killed.
        """
        moments = self._random.sample(range(1, BATCH - 1), self._random.randint(1, 3))
        self.report.ends += self._batch(BATCH, {moment: self._random.choice(targets) for moment in moments})

    def _clean_batch(self) -> None:
        """Check that everything works without kills.

        It first runs jobs that may still fail, because they get boxes that were killed while they waited.
        """
        self.report.ends += self._batch(CLEAN, ())
        self.report.clean_ends += self._batch(CLEAN, ())

    def _batch(self, jobs: int, kills: "dict[int, str] | tuple[()]") -> Counter[str]:
        """Run a batch of jobs, and return how they ended.

        Args:
            jobs: The number of jobs.
            kills: What to kill, by the number of jobs that have ended before.

        Raises:
            Killed: The engine was killed.
        """
        assert self._engine is not None
        assert self._engine.stdin is not None
        order = {"jobs": jobs, "seed": self._random.randrange(1 << 30)}
        self._engine.stdin.write(json.dumps(order).encode() + b"\n")
        self._engine.stdin.flush()
        ended = 0
        while (byte := self._read_answer()) == b".":
            ended += 1
            self.report.runs += 1
            target = dict(kills).get(ended)
            if target and self._kill(target):
                raise Killed
        assert self._engine.stdout is not None
        return Counter(json.loads(byte + self._engine.stdout.readline())["ends"])

    def _read_answer(self) -> bytes:
        """Return the next byte of the engine's answer.

        Raises:
            AssertionError: The engine is silent or dead.
        """
        assert self._engine is not None
        assert self._engine.stdout is not None
        stream = self._engine.stdout
        byte = stream.read(1) if select.select([stream], [], [], _DEADLINE_S)[0] else b""
        if not byte:
            raise AssertionError(f"the engine was silent for {_DEADLINE_S:.0f} s, or died (seed {self.report.seed})")
        return byte

    def _kill(self, target: str) -> bool:
        """Kill one process of this kind, if there is one; return whether it was the engine."""
        assert self._engine is not None
        self._seen.look(self._engine.pid)
        if target == "engine":
            self._engine.kill()
            self._engine.communicate()
            self.report.kills[target] += 1
            return True
        for _ in range(_TRIES):  # most live for milliseconds only
            there = residue.parts(self._engine.pid)[target]
            if there and self._kill_process(self._random.choice(there)):
                self.report.kills[target] += 1
                break
        return False

    def _kill_process(self, pid: int) -> bool:
        """Kill a process through a pidfd, so that no other process is hit; return False if it ended by itself."""
        assert self._engine is not None
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not any(pid in level for level in residue.generations(self._engine.pid)):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def _look_at_engine(self) -> None:
        """Record the engine's descriptors and memory once it has as many boxes as before the kills."""
        assert self._engine is not None
        pid = self._engine.pid
        expected = self.report.descriptors[0] if self.report.descriptors else None
        if expected is None:
            wait_until_stable(lambda: residue.descriptors(pid), times=20)
        else:
            wait_until(lambda: residue.descriptors(pid) == expected, f"descriptors are not {expected} again")
        self.report.descriptors.append(residue.descriptors(pid))
        self.report.memory_kib.append((self.report.runs, residue.resident_kib(pid)))

    def _nothing_lives(self) -> None:
        """Check that no process is alive: those that outlived their parent are children of the driver."""
        wait_until(lambda: not self._orphans(), "processes live on")

    @staticmethod
    def _orphans() -> list[int]:
        levels = residue.generations(os.getpid())
        for pid in levels[0] if levels else ():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return [pid for level in residue.generations(os.getpid()) for pid in level]

    def _look_for_residue(self, mounts: list[str], sockets: int) -> None:
        """Fill in `left`, with an entry for each kind even if nothing is found.

        It waits, because the kernel removes namespaces some time after their last process has ended.
        """
        self.report.namespaces_seen = len(self._seen.namespaces)
        looks: dict[str, Callable[[], list[str]]] = {
            "processes": lambda: [str(pid) for pid in self._orphans()],
            "members of namespaces": self._seen.members,
            "control groups": self._seen.groups,
            "mounts of the workspace": lambda: residue.mounted(self._workspace),
            "files": lambda: [str(path) for folder in (self._temporary, self._workspace) for path in folder.iterdir()],
        }
        if os.geteuid() == 0:  # in the driver's own namespaces, where sockets of others do not come and go
            looks["mounts"] = lambda: list((Counter(residue.mounts()) - Counter(mounts)).elements())
            looks["unix sockets"] = lambda: ["more than before"] * max(0, residue.unix_sockets() - sockets)
        for name, look in looks.items():
            with contextlib.suppress(AssertionError):
                wait_until(lambda look=look: not look(), name)  # type: ignore[misc]
            self.report.left[name] = look()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}, {_DEADLINE_S:.0f} s later")
        select.select([], [], [], 0.01)


def wait_until_stable(value: Callable[[], int], times: int) -> None:
    """Wait until the value has been the same this many times in a row."""
    seen: list[int] = []

    def steady() -> bool:
        seen.append(value())
        return len(seen) >= times and len(set(seen[-times:])) == 1

    wait_until(steady, "the value is not stable")


def alone() -> None:
    """Make this process the subreaper of what it starts; as root, also enter new namespaces."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.geteuid() == 0:
        syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS)
        syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)


def main() -> None:
    runs, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    alone()
    sys.stdout.write(json.dumps(vars(Soak(runs, seed, folder).run())) + "\n")


if __name__ == "__main__":
    main()
