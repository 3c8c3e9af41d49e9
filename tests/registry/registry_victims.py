"""Writers and a reader of a registry's file, which tests kill. They record in journals what they have done."""

import os
import random
from pathlib import Path
from typing import Any

from engine.registry.envelope import read_tool
from engine.registry.file_registry import FileRegistry, parse
from engine.registry.updates import RegistryUpdates
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.records import Records

ITEMS = 12  # that one writer has at most


def opened(home: str) -> FileRegistry[Any]:
    clock = SystemClock()
    lasting = Records.open(f"sqlite:///{home}/events.db", power_cuts=True)
    records = Records.open(f"sqlite:///{home}/records.db")
    updates = RegistryUpdates(EventLog(lasting, clock), lasting, records, clock)
    return FileRegistry("tools", Path(home) / "registries", read_tool, updates, clock)


def envelope(item: str, version: int) -> dict[str, Any]:
    # As long as some are, so that a write takes a moment.
    return {"spec_id": item, "version": str(version), "adapter_path": "a.b:c", "meta": {"filler": "x" * 2_000}}


def write_on(pipe: Any, home: str, name: str, first: int) -> None:
    """Register and delete items endlessly, with a line in the journal before and after each change."""
    registry = opened(home)
    out = os.open(f"{home}/{name}.journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    rng = random.Random(first)
    pipe.send("ready")
    version = first
    while True:
        version += 1
        item = f"{name}-{rng.randrange(ITEMS)}"
        if rng.random() < 0.25:
            os.write(out, f"try {item} gone\n".encode())
            registry.remove(item)
            os.write(out, f"done {item} gone\n".encode())
        else:
            os.write(out, f"try {item} {version}\n".encode())
            registry.put(item, envelope(item, version))
            os.write(out, f"done {item} {version}\n".encode())


def read_on(pipe: Any, home: str) -> None:
    """Read until asked to stop. Then report how often the file was read, and what was wrong."""
    registry = opened(home)
    path = Path(home) / "registries" / "tools.json"
    wrong: list[str] = []
    reads = 0
    pipe.send("ready")
    while not pipe.poll(0.001):
        view = registry.view()
        wrong += [str(problem) for problem in view.problems]
        if path.exists():
            parse(path.read_bytes())
        reads += 1
    pipe.send((reads, wrong))


def reconcile(pipe: Any, home: str) -> None:
    opened(home).reconcile()
    pipe.send("done")
