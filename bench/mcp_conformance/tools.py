"""The tools of the conformance suite that Knackbox can offer itself, written as any other tool."""

import asyncio

from bench.mcp_conformance.content import PNG
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.registry.decorate import tool

READS = Annotations(read_only=True)


@tool(annotations=READS)
async def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(annotations=READS)
async def test_error_handling() -> str:
    """Fail."""
    raise ToolFailure("This tool intentionally returns an error for testing")


@tool(annotations=READS)
async def test_tool_with_progress(ctx: CallContext) -> str:
    """Report progress three times."""
    for fraction in (0.0, 0.5, 1.0):
        ctx.progress(f"{fraction:.0%}", fraction)
        await asyncio.sleep(0.02)  # so that the reports are not combined
    return "done"


@tool()
async def test_image_content(ctx: CallContext) -> Produced[str]:
    """Create an image in the workspace."""
    await asyncio.to_thread(ctx.workspace.write, "red.png", PNG)
    return Produced("red.png", "An image.", ("created:red.png",))


ENGINE_TOOLS = [test_simple_text, test_error_handling, test_tool_with_progress, test_image_content]
