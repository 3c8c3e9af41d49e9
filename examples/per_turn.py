"""Turns: get the tools of a turn in a provider's format, and stream a call. Run: python examples/per_turn.py"""

import asyncio
import tempfile

from engine import Engine
from engine.contract.context import CallContext
from engine.contract.events import OutputPiece, Progress
from engine.contract.turn import Turn
from engine.formats.openai import tools_to_openai_format
from engine.registry.decorate import tool
from engine.registry.static import StaticSource


@tool(required_permission="user")
async def bake(ctx: CallContext, loaves: int) -> str:
    """Bake bread."""
    for number in range(loaves):
        ctx.progress(f"loaf {number + 1}", (number + 1) / loaves)
    return f"{loaves} loaves"


async def main() -> None:
    async with Engine.open(home=tempfile.mkdtemp(), sources=[StaticSource("bakery", [bake])]) as engine:
        for turn in (Turn(permission="guest"), Turn(permission="user", query="fresh bread for breakfast")):
            specs = await engine.get_active_tool_definitions(turn)  # sorted by name; the same turn gives the same bytes
            print(turn.permission, [each["function"]["name"] for each in tools_to_openai_format(specs)][:3])
        for name, arguments in (("bake", {"loaves": 2}), ("execute", {"language": "bash", "code": "echo in a box"})):
            async for event in engine.stream(name, arguments, turn):
                match event:
                    case Progress(message, fraction):
                        print(f"  {fraction:.0%} {message}")
                    case OutputPiece(stream, text):
                        print(f"  {stream}: {text.strip()}")
            print(f"{name}: {event.success}")  # the last event is the result


if __name__ == "__main__":
    asyncio.run(main())
