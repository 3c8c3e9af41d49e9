"""`system_utility`: reports facts about the machine and the engine, and runs health checks."""

import asyncio
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from sqlalchemy.exc import SQLAlchemyError
from typing_extensions import TypedDict

from engine.contract.context import CallContext, Produced
from engine.contract.failure import ConfigError
from engine.contract.spec import Annotations
from engine.dispatch.workspace_folder import folder_of
from engine.registry.decorate import tool
from engine.stores.records import Records
from engine.stores.workspace import FolderWorkspace
from sandbox.contract import Job, Language, Limits, SandboxError

LOW_DISK = 1 << 30  # bytes; with less free space, the disk is reported as unhealthy
PROBE = Job(language=Language.PYTHON, code="6 * 7", limits=Limits(wall_s=10, cpu_s=5))


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The result of one check.

    Attributes:
        detail: What was observed, or what is wrong and how to repair it.
    """

    name: str
    healthy: bool
    detail: str


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


class CheckRow(TypedDict):
    """The result of one check.

    Attributes:
        detail: What was observed, or what is wrong and how to repair it.
    """

    name: str
    healthy: bool
    detail: str


class HealthReport(TypedDict):
    """The result of each health check, and whether all of them passed."""

    healthy: bool
    checks: list[CheckRow]


@tool(category="system", annotations=Annotations(read_only=True, idempotent=True), tier="low")
async def system_utility(
    ctx: CallContext, action: Literal["diagnostics", "health"]
) -> Produced[Diagnostics | HealthReport]:
    """Report facts about the machine and the engine that you run on, or check whether they work.

    Use `diagnostics` for the current time, versions, processors, memory, free disk space and the protections of the
    sandbox. Use `health` when several tools fail unexpectedly: it runs code in a fresh box, writes to the workspace,
    opens the records and reports what does not work.

    Args:
        action: Which report to return.
    """
    if action == "diagnostics":
        facts = await diagnose(ctx)
        return Produced(facts, "\n".join(f"{name}: {format_fact(value)}" for name, value in facts.items()))
    checks = await asyncio.gather(check_box(ctx), check_workspace(ctx), check_records(ctx), check_disk(ctx))
    healthy = all(check.healthy for check in checks)
    lines = [f"{'ok  ' if check.healthy else 'FAIL'} {check.name}: {check.detail}" for check in checks]
    return Produced(
        {
            "healthy": healthy,
            "checks": [{"name": each.name, "healthy": each.healthy, "detail": each.detail} for each in checks],
        },
        "\n".join(["Everything works." if healthy else "Something does not work.", *lines]),
    )


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


async def check_box(ctx: CallContext) -> HealthCheck:
    """Run one expression in a fresh box."""
    try:
        outcome = await ctx.sandbox.run(PROBE)
    except SandboxError as error:
        return HealthCheck("sandbox", healthy=False, detail=str(error))
    if outcome.ok and outcome.value == 42:  # noqa: PLR2004 -- the value of PROBE's expression
        return HealthCheck(
            "sandbox", healthy=True, detail=f"a fresh box answered in {outcome.usage.wall_s * 1000:.1f} ms"
        )
    problem = outcome.error.message if outcome.error else outcome.stderr.decode("utf-8", "replace")[-300:]
    return HealthCheck(
        "sandbox", healthy=False, detail=f"a box ended with {outcome.end}: {problem}. Run `knackbox doctor`."
    )


async def check_workspace(ctx: CallContext) -> HealthCheck:
    """Write a file, read it back and remove it. Its name contains the call's id, so no other file is affected."""
    return await asyncio.to_thread(
        run_probe, "workspace", lambda: write_and_read(folder_of(ctx), f".health-{ctx.call_id}")
    )


def write_and_read(folder: FolderWorkspace, name: str) -> str:
    folder.write(name, b"knackbox")
    try:
        if folder.read(name) != b"knackbox":
            raise OSError("a file did not have the content just written to it when it was read back")
    finally:
        folder.delete(name)
    return "written and read back"


async def check_records(ctx: CallContext) -> HealthCheck:
    records = ctx.need(Records)
    return await asyncio.to_thread(run_probe, "records", lambda: take_write_lock(records))


def take_write_lock(records: Records) -> str:
    with records.begin():
        return "open, and the write lock is free"


async def check_disk(ctx: CallContext) -> HealthCheck:
    free = (await asyncio.to_thread(shutil.disk_usage, ctx.workspace.root)).free
    return HealthCheck(
        "disk",
        healthy=free >= LOW_DISK,
        detail=f"{free:,} bytes free" + ("" if free >= LOW_DISK else ": low; delete files that are not needed"),
    )


def run_probe(name: str, probe: Callable[[], str]) -> HealthCheck:
    """Run a check that either returns what it observed or raises."""
    try:
        return HealthCheck(name, healthy=True, detail=probe())
    except (OSError, ValueError, ConfigError, SQLAlchemyError) as error:
        return HealthCheck(name, healthy=False, detail=str(error))
