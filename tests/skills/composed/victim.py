"""A program that composes a skill and is killed in the middle of a call of it. Its argument is the home."""

import asyncio
import sys
from pathlib import Path

from engine import Engine
from engine.contract.context import CallContext
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.skills.composed.parts import TOOLS, compose

NOTE = {"name": "note", "call": "send_note", "inputs": {"to": "ann", "text": {"from": "/arguments/text"}}}
HOLD = {"name": "hold", "call": "hold_on", "inputs": {}}
PIPELINE = {"steps": [NOTE, HOLD], "output": {"from": "/hold"}}
CASE = {
    "arguments": {"text": "hi"},
    "steps": {"note": 1, "hold": "held"},
    "asked": {"note": {"to": "ann", "text": "hi"}, "hold": {}},
    "expect": "held",
}


@tool(category="notes")
async def hold_on(ctx: CallContext) -> str:
    """Report that the call has begun, and wait to be killed."""
    with (ctx.workspace.root / "held.txt").open("a") as held:
        held.write("held\n")
    if not (ctx.workspace.root / "let_go").exists():
        ctx.progress("holding")
        await asyncio.Event().wait()
    return "let go"


async def main(home: Path) -> None:
    async with Engine.open(home=home, sources=[StaticSource("post", (*TOOLS, hold_on))]) as engine:
        assert (await compose(engine, PIPELINE, [CASE], name="note_and_hold")).success
        await engine.call("note_and_hold", {"text": "hi"}, progress=lambda said, _=None: print(said, flush=True))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
