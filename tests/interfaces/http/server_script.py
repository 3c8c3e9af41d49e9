"""A server with simple tools for tests: ``server_script.py HOME``. It prints its address on stdout."""

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

from engine import Engine
from engine.app.config import load_settings
from engine.app.home import Home
from engine.contract.context import CallContext, Produced
from engine.contract.spec import Annotations
from engine.interfaces.http import server
from engine.interfaces.http.listen import listen, names_of, url_of
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from sandbox.contract import Busy

PAID: list[int] = []
READS = Annotations(read_only=True)


@tool(annotations=READS)
async def whoami(ctx: CallContext) -> dict[str, Any]:
    """Return the identity and the permissions that a call runs with."""
    turn = ctx.turn
    return {
        "user": turn.user,
        "agent": turn.agent,
        "permission": turn.permission,
        "caps": sorted(turn.caps),
        "modules": None if turn.modules is None else sorted(turn.modules),
        "band": turn.band,
    }


@tool(annotations=READS)
async def echo(value: Any) -> Any:
    """Return the argument."""
    return value


@tool(annotations=READS)
async def odd() -> Any:
    """Return a number that JSON cannot express and half of a surrogate pair."""
    return {"nan": float("nan"), "half": "\ud800", "line": "a\r\n\r\nevent: result\u2028"}


@tool(annotations=READS)
async def no_box() -> str:
    """Fail because every box is in use."""
    raise Busy("All boxes are in use.", retry_after=7.2)


@tool(required_permission="admin")
async def admins_alone() -> str:
    """Do what only admins may do."""
    return "done"


@tool(safety_class="HIGH")
async def dangerous() -> str:
    """Do what a strict band forbids."""
    return "done"


@tool(caps_required=("keys",))
async def with_keys() -> str:
    """Do what needs a cap."""
    return "done"


@tool(timeout_s=60)
async def linger(ctx: CallContext, note: str) -> str:
    """Run forever. A file in the workspace records the progress."""
    ctx.workspace.write(note, b"begun")
    ctx.progress("begun", 0.5)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ctx.workspace.write(note, b"cancelled")
        raise
    return "never"


@tool(annotations=READS)
async def steps(ctx: CallContext, count: int) -> int:
    """Report progress `count` times."""
    for step in range(count):
        ctx.progress(f"step {step}", step / count)
        await asyncio.sleep(0)
    return count


@tool(annotations=READS)
async def shout(ctx: CallContext, pieces: int) -> int:
    """Print many lines at once."""
    for number in range(pieces):
        ctx.progress.output("stdout", f"{number}\r\n\r\nevent: result")  # type: ignore[attr-defined]
    return pieces


@tool(annotations=READS, timeout_s=60)
async def from_a_thread(ctx: CallContext, go: str) -> str:
    """Report progress from a thread, then wait until a file exists."""

    def report() -> None:
        ctx.progress("in a thread", 0.5)

    threading.Thread(target=report).start()
    while not (await asyncio.to_thread((ctx.workspace.root / go).exists)):
        await asyncio.sleep(0.01)
    return "done"


@tool(annotations=Annotations(destructive=True))
async def erase() -> str:
    """Erase something. The call is recorded before it runs."""
    return "erased"


@tool(annotations=Annotations(requires_confirmation=True), timeout_s=60)
async def pay(amount: int) -> str:
    """Pay an amount."""
    PAID.append(amount)
    return f"paid {amount}"


@tool(annotations=READS)
async def paid() -> list[int]:
    """Return what was paid."""
    return PAID


@tool(annotations=Annotations(idempotent=True))
async def jot(ctx: CallContext, path: str) -> Produced[str]:
    """Create a file in the workspace."""
    await asyncio.to_thread(ctx.workspace.write, path, b"jotted")
    return Produced(path, path, (f"created:{path}",))


TOOLS = [
    jot,
    whoami,
    echo,
    odd,
    no_box,
    admins_alone,
    dangerous,
    with_keys,
    linger,
    steps,
    shout,
    from_a_thread,
    erase,
    pay,
    paid,
]


async def main(home: Home) -> None:
    settings = load_settings(home, {})
    listening = listen("127.0.0.1", 0, allow_remote=False)
    await server.serve(
        lambda people: Engine.open(
            home.root, settings=settings, sources=[StaticSource("tests", TOOLS)], packs=False, environ={}, people=people
        ),
        listening,
        names_of(listening, "127.0.0.1", settings.http.hosts),
        settings.http,
        lambda: print(json.dumps({"url": url_of(listening)}), flush=True),
    )


if __name__ == "__main__":
    server.HEADER_TIMEOUT_S = 1.0  # short, because a test waits for it
    asyncio.run(main(Home(Path(sys.argv[1]))))
