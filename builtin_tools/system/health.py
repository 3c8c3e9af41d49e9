"""Checks whether the parts of the engine work."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError
from typing_extensions import TypedDict

from engine.contract.context import CallContext, Produced
from engine.contract.failure import ConfigError
from engine.dispatch.workspace_folder import folder_of
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


async def report_health(ctx: CallContext) -> Produced[HealthReport]:
    """Run all checks, and return their results as data and as lines of text."""
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
