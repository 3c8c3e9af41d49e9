"""A process with a worker, on a clock that all processes share, whose calls leave a line in a file. It may be killed."""

import asyncio
import mmap
import os
import struct
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from builtin_tools.schedule.store import JobStore
from builtin_tools.schedule.triggers.wall_time import instant_of, moment_of
from builtin_tools.schedule.worker import JobWorker
from engine.contract.background import MessageReport
from engine.contract.result import ToolResult
from engine.contract.spec import Annotations, ToolSpec
from engine.contract.turn import Turn


class SharedClock:
    """A clock in a file. One process sets it, and all others see that at once."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, 8)
        self._memory = mmap.mmap(descriptor, 8)
        os.close(descriptor)

    def set(self, moment: datetime) -> None:
        self._memory[:8] = struct.pack("<q", instant_of(moment))

    def now(self) -> datetime:
        return moment_of(struct.unpack("<q", self._memory[:8])[0])

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class RecordingHost:
    """Appends a line to a file for each call, as the only effect. Only the tool `look` may be repeated."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def call(self, name: str, arguments: Mapping[str, Any], turn: Turn, *, call_id: str = "") -> ToolResult:
        os.write(self._file, f"{call_id}\n".encode())
        await asyncio.sleep(0)
        return ToolResult(success=True, message="done")

    async def describe_tool(self, name: str, turn: Turn) -> ToolSpec:
        return ToolSpec(name, "", annotations=Annotations(read_only=name == "look"))

    async def send(self, message: str, turn: Turn, *, most_tokens: int = 0, most_s: float = 0.0) -> MessageReport:
        raise NotImplementedError


def effects(path: Path) -> list[tuple[str, int]]:
    """Return (job, instant) of each call that took place."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        _, job, instant, _ = line.split("-")
        found.append((job, int(instant)))
    return found


def work(pipe: Any, folder: str, slots: int) -> None:
    """Run jobs until killed."""
    root = Path(folder)
    clock = SharedClock(root / "clock")
    store = JobStore.open(root / "schedule.db", clock)
    worker = JobWorker(store, root / "workers", clock, slots=slots, poll_s=0.01, dead_s=0.1)
    pipe.send("ready")
    asyncio.run(worker.run(RecordingHost(root / "effects")))
