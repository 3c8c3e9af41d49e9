"""`image_generation`: have an image drawn, into the workspace."""

import asyncio
from typing import Literal

from builtin_tools.refusals import not_configured, wrong_arguments
from builtin_tools.workspace import explained, folder_of
from engine.contract.context import CallContext, Produced
from engine.registry.decorate import tool

Size = Literal["1024x1024", "1536x1024", "1024x1536"]


@tool(
    required_permission="user",
    category="vision",
    requires=("image_client",),
    side_effects=("filesystem_write", "network"),
    cost="expensive",
    timeout_s=120,
)
async def image_generation(
    ctx: CallContext, prompt: str, path: str = "image.png", size: Size = "1024x1024"
) -> Produced:
    """Draw an image from a description and save it as a PNG in the workspace, replacing a file of that name.

    Args:
        prompt: What the image shows: subject, style, composition, colours, any text in it.
        path: Where to save it, relative to the workspace, ending in `.png`.
        size: Width x height in pixels: square, landscape or portrait.
    """
    if ctx.images is None:
        raise not_configured("No image client is configured. A person can set [image] in the configuration.")
    if not path.lower().endswith(".png"):
        raise wrong_arguments(f"`path` is {path!r}, but the image is a PNG: end it in `.png`.")
    folder = folder_of(ctx)
    with explained():  # a path that cannot be used is found out before anything is paid for
        await asyncio.to_thread(folder.exists, path)
    data = await ctx.images.generate(prompt, size)
    with explained():
        await asyncio.to_thread(folder.write, path, data)
    return Produced({"path": path, "bytes": len(data)}, f"Saved {path} ({len(data):,} bytes).", (f"created:{path}",))
