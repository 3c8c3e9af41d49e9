"""`image_generation`: have an image drawn, into the workspace."""

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from typing_extensions import TypedDict

from builtin_tools.refusals import not_configured, wrong_arguments
from builtin_tools.workspace import explained, folder_of
from engine.contract.context import CallContext, ImageClient, Produced
from engine.contract.source import Tool
from engine.registry.decorate import tool


class Drawn(TypedDict):
    """The file that was written. bytes: its size."""

    path: str
    bytes: int


@tool(
    required_permission="user",
    category="vision",
    requires=("image_client",),
    side_effects=("filesystem_write", "network"),
    cost="expensive",
    timeout_s=120,
)
async def image_generation(
    ctx: CallContext, prompt: str, path: str = "image.png", size: str = "", client: str = ""
) -> Produced[Drawn]:
    """Draw an image from a description and save it as a PNG in the workspace, replacing a file of that name.

    Args:
        prompt: What the image shows: subject, style, composition, colours, any text in it.
        path: Where to save it, relative to the workspace, ending in `.png`.
        size: Width x height in pixels; without it the usual size.
        client: What draws it; without it the first that takes the size.
    """
    if not ctx.images:
        raise not_configured(
            "No image client is configured. A person can set [image] or [image_gen_clients.<name>] in config.toml."
        )
    if not path.lower().endswith(".png"):
        raise wrong_arguments(f"`path` is {path!r}, but the image is a PNG: end it in `.png`.")
    name = chosen(ctx.images, client, size)
    drawing = ctx.images[name]
    folder = folder_of(ctx)
    with explained():  # a path that cannot be used is found out before anything is paid for
        await asyncio.to_thread(folder.exists, path)
    data = await drawing.generate(prompt, size or drawing.sizes[0])
    with explained():
        await asyncio.to_thread(folder.write, path, data)
    ctx.audit["image_client"] = name
    return Produced({"path": path, "bytes": len(data)}, f"Saved {path} ({len(data):,} bytes).", (f"created:{path}",))


def chosen(clients: Mapping[str, ImageClient], client: str, size: str) -> str:
    """The name of the client that draws. Raises ToolFailure, DIAGNOSTIC, when none fits what was asked for."""
    if client and client not in clients:
        raise wrong_arguments(f"There is no image client {client[:80]!r}. There is {', '.join(clients)}.")
    asked = {client: clients[client]} if client else clients
    fitting = [name for name, each in asked.items() if not size or size in each.sizes]
    if not fitting:
        sizes = "; ".join(f"{name} takes {', '.join(each.sizes)}" for name, each in asked.items())
        raise wrong_arguments(f"`size` is {size[:40]!r}, which is not taken: {sizes}.")
    return fitting[0]


def offering(clients: Mapping[str, ImageClient]) -> Tool:
    """The tool with the names and sizes of these clients in its schema, so that a model asks for no others."""
    if not clients:
        return image_generation
    parameters: dict[str, Any] = deepcopy(dict(image_generation.spec.parameters))
    sizes, names = parameters["properties"]["size"], parameters["properties"]["client"]
    sizes["enum"] = list(dict.fromkeys(size for client in clients.values() for size in client.sizes))
    names["enum"] = list(clients)
    for each in (sizes, names):
        each.pop("default", None)
    if len(clients) == 1:
        del parameters["properties"]["client"]
    else:
        taken = "; ".join(f"{name}: {', '.join(client.sizes)}" for name, client in clients.items())
        sizes["description"] = f"{sizes['description']} Taken by {taken}."
    return replace(image_generation, spec=replace(image_generation.spec, parameters=parameters))
