"""A small pack of tools for the tests of the engine and its interfaces."""

import asyncio
import time
from typing import Any

from engine.contract.context import CallContext, Produced
from engine.contract.spec import Annotations
from engine.dispatch.render import MAX_NODES
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from sandbox.contract import Job, Limits, Mount

READ = Annotations(read_only=True, idempotent=True)


@tool(category="test", annotations=READ)
async def double(ctx: CallContext, x: int) -> int:
    """Return twice a number.

    Args:
        x: The number.
    """
    return 2 * x


@tool(category="test", annotations=READ)
async def misleading(ctx: CallContext) -> dict[str, int]:
    """Declare one type and return another."""
    wrong: Any = {"a": "one"}
    return wrong  # type: ignore[no-any-return]


@tool(category="test", annotations=READ)
async def huge(ctx: CallContext) -> list[int]:
    """Return more values than a result may have."""
    return [0] * (MAX_NODES + 1)


@tool(category="test", annotations=READ)
async def steps(ctx: CallContext, count: int) -> str:
    """Report progress in several steps."""
    for number in range(1, count + 1):
        ctx.progress(f"step {number}", number / count)
        await asyncio.sleep(0)
    return "done"


@tool(category="test", requires=("sandbox",), timeout_s=120)
async def run_box(ctx: CallContext, code: str) -> Produced:
    """Run Python in a fresh box."""
    outcome = await ctx.sandbox.run(Job(code=code, limits=Limits(wall_s=100)))
    return Produced({"end": outcome.end.value, "value": outcome.value}, outcome.stdout.decode())


@tool(category="test", requires=("sandbox",), timeout_s=120)
async def hold_lock(ctx: CallContext) -> Produced:
    """Lock the file `lock` of the workspace from inside a box until the box ends."""
    code = "import fcntl, time\nfile = open('/work/lock', 'w')\nfcntl.flock(file, fcntl.LOCK_EX)\ntime.sleep(100)"
    job = Job(code=code, workspace=Mount(ctx.workspace.root), limits=Limits(wall_s=100))
    outcome = await ctx.sandbox.run(job)
    return Produced({"end": outcome.end.value}, outcome.stderr.decode())


@tool(category="test", annotations=READ)
def blocking(seconds: float) -> str:
    """Block a thread."""
    time.sleep(seconds)
    return "slept"


@tool(category="test", requires=("a_moon_base",))
async def unreachable(ctx: CallContext) -> None:
    """Need something that is not configured."""


@tool(category="test", features=("vision",), annotations=READ)
async def look(ctx: CallContext) -> str:
    """Need a vision model."""
    return "seen" if ctx.vision is not None else "blind"


@tool(category="test", annotations=READ)
async def write_note(ctx: CallContext, text: str) -> Produced:
    """Write to the workspace."""
    ctx.workspace.write("note.txt", text.encode())
    return Produced({"bytes": len(text)}, "written", ("created:note.txt",))


@tool(category="test")
async def noisy(ctx: CallContext) -> dict[str, Any]:
    """Print to stdout, which a protocol may use."""
    print("this must not get into the protocol")
    return {"printed": True}


def source() -> StaticSource:
    return StaticSource(
        "test", [double, misleading, huge, steps, run_box, hold_lock, blocking, unreachable, look, write_note, noisy]
    )
