"""Reports facts about the machine and the engine."""

import asyncio
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from engine.contract.context import CallContext, Produced


class Diagnostics(TypedDict):
    """Facts about the machine and the engine. Sizes are in bytes.

    Attributes:
        model_sees: Whether a vision model is configured.
        sandbox: The backend, and the state of each protection.
    """

    time_utc: str
    knackbox: str
    python: str
    system: str
    processors: int
    load_1_5_15: list[float]
    memory: dict[str, int]
    disk: dict[str, int]
    model_sees: bool
    image_client: bool
    sandbox: dict[str, str]


async def report_diagnostics(ctx: CallContext) -> Produced[Diagnostics]:
    """Return facts about the machine and the engine as data and as lines of text."""
    facts = await diagnose(ctx)
    return Produced(facts, "\n".join(f"{name}: {format_fact(value)}" for name, value in facts.items()))


async def diagnose(ctx: CallContext) -> Diagnostics:
    """Return facts about the program, its settings and the machine.

    A model reads them, so they contain no host name, user name, network address or environment variable.
    """
    report = await ctx.sandbox.report()
    disk = await asyncio.to_thread(shutil.disk_usage, ctx.workspace.root)
    return {
        "time_utc": ctx.clock.now().isoformat(timespec="seconds"),
        "knackbox": package_version(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": len(os.sched_getaffinity(0)),
        "load_1_5_15": [round(load, 2) for load in os.getloadavg()],
        "memory": await asyncio.to_thread(memory),
        "disk": {"total": disk.total, "free": disk.free},
        "model_sees": ctx.vision is not None,
        "image_client": bool(ctx.images),
        "sandbox": {"backend": report.backend, **{item.name: str(item.state) for item in report.items}},
    }


def package_version() -> str:
    try:
        return version("knackbox")
    except PackageNotFoundError:
        return "not installed (running from the source tree)"


def memory() -> dict[str, int]:
    """Return the total and the available memory in bytes, from /proc/meminfo; empty if that file is missing.

    "kB" in that file means KiB (proc(5)).
    """
    source = Path("/proc/meminfo")
    if not source.exists():
        return {}
    fields = dict(line.split(":", 1) for line in source.read_text("ascii").splitlines())
    named = {"total": "MemTotal", "available": "MemAvailable"}
    return {name: int(fields[field].split()[0]) * 1024 for name, field in named.items() if field in fields}


def format_fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {format_fact(each)}" for key, each in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
