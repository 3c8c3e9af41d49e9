"""Measures the memory of each additional waiting box, as proportional set size (PSS), which divides shared pages.

The figure is the growth in the total PSS of all processes when a number of boxes is added, divided by that number. The
template's pages count only to the extent that adding a box increases their PSS.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.boxes.kinds import ProcessOne, kinds
from bench.peers import PLAIN as PLAIN_WAY
from sandbox.contract import SandboxError
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

_FEW = 2
_PROCESSES_PER_BOX = 2
_SETTLED_S, _INTERVAL_S = 20.0, 0.05
_WAITING = "import sys; print(flush=True); sys.stdin.read()"


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of one candidate.

    Attributes:
        pss: MiB per waiting box; None if this user may not read it.
    """

    way: str
    count: int
    pss: float | None

    def as_dict(self) -> dict[str, Any]:
        return {"way": self.way, "count": self.count, "pss_mib": self.pss}


async def footprints(more: int) -> list[Footprint]:
    """Measure `more` additional boxes, and as many plain interpreters that wait for input."""
    found = []
    for kind in kinds():
        few, many = [await _of_boxes(count, kind) for count in (_FEW, _FEW + more)]
        each = None if few is None or many is None else (many - few) / more
        found.append(Footprint(f"knackbox: a box that waits{kind.note}", more, each))
    plain_few, plain_many = (_of_interpreters(count) for count in (_FEW, _FEW + more))
    return [*found, Footprint(PLAIN_WAY, more, (plain_many - plain_few) / more)]


async def _of_boxes(count: int, kind: ProcessOne) -> float | None:
    """Return the MiB of `count` waiting boxes, their template and its supervisor."""
    async with NamespaceSandbox(NamespaceConfig(warm=count, native=kind.native)) as box:
        before = set(descendants(os.getpid()))
        await box.warm_up()
        expected = kind.helpers + _PROCESSES_PER_BOX * count
        deadline, last = time.monotonic() + _SETTLED_S, -1.0
        while time.monotonic() < deadline:
            found = [pid for pid in descendants(os.getpid()) if pid not in before]
            try:
                now = sum(pss_mib(pid) for pid in found)
            except PermissionError:
                return None
            if len(found) >= expected and now == last:  # more empty boxes may be ready
                return now
            last = now
            await asyncio.sleep(_INTERVAL_S)
    raise SandboxError(f"After {_SETTLED_S:.0f} s, not all of {count} boxes were waiting. Is the machine overloaded?")


def _of_interpreters(count: int) -> float:
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", _WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(count)
        ]
        for process in running:
            if process.stdout is not None:
                process.stdout.readline()
        total = sum(pss_mib(process.pid) for process in running)
        for process in running:
            if process.stdin is not None:
                process.stdin.close()
        return total


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def pss_mib(pid: int) -> float:
    """Return the PSS of a process in MiB; 0 if the process has ended.

    Raises:
        PermissionError: This user may not read it.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Pss:")), 0.0)
