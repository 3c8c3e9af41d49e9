"""`image_generation`: draws an image from a description and saves it in the workspace."""

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from typing_extensions import TypedDict

from engine.contract.context import CallContext, ImageClient, Produced
from engine.contract.source import Tool
from engine.dispatch.refusals import not_configured, wrong_arguments
from engine.dispatch.workspace_folder import folder_of, workspace_failures
from engine.registry.decorate import tool


class ImageOutput(TypedDict):
    """The image file that was written.

    Attributes:
        bytes: The size of the file.
    """

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
) -> Produced[ImageOutput]:
    """Draw an image from a description and save it as a PNG file in the workspace. An existing file is replaced.

    Use it for pictures and illustrations. For plots and diagrams of data, use `execute`: it is exact and free.

    Args:
        prompt: What the image shows: subject, style, composition, colours, and any text in it.
        path: Where to save it, relative to the workspace. Must end in `.png`.
        size: Width x height in pixels. The default is the first size of the image client.
        client: Name of the image client that draws it. The default is the first one that supports the size.
    """
    if not ctx.images:
        raise not_configured(
            "No image client is configured. A person can set [image] or [image_gen_clients.<name>] in config.toml."
        )
    if not path.lower().endswith(".png"):
        raise wrong_arguments(f"`path` is {path!r}, but the image is a PNG file. Use a path that ends in `.png`.")
    name = choose_client(ctx.images, client, size)
    chosen = ctx.images[name]
    folder = folder_of(ctx)
    with workspace_failures():  # an unusable path is refused before the image is paid for
        await asyncio.to_thread(folder.exists, path)
    data = await chosen.generate(prompt, size or chosen.sizes[0])
    with workspace_failures():
        await asyncio.to_thread(folder.write, path, data)
    ctx.audit["image_client"] = name
    return Produced({"path": path, "bytes": len(data)}, f"Saved {path} ({len(data):,} bytes).", (f"created:{path}",))


def choose_client(clients: Mapping[str, ImageClient], client: str, size: str) -> str:
    """Return the name of the client to use.

    Raises:
        ToolFailure: DIAGNOSTIC. There is no such client, or none supports the size.
    """
    if client and client not in clients:
        raise wrong_arguments(f"There is no image client {client[:80]!r}. Use one of: {', '.join(clients)}.")
    candidates = {client: clients[client]} if client else clients
    suitable = [name for name, each in candidates.items() if not size or size in each.sizes]
    if not suitable:
        sizes = "; ".join(f"{name} supports {', '.join(each.sizes)}" for name, each in candidates.items())
        raise wrong_arguments(f"`size` is {size[:40]!r}, which is not supported. Use another size: {sizes}.")
    return suitable[0]


def with_client_choices(clients: Mapping[str, ImageClient]) -> Tool:
    """Return the tool with a schema that lists the names and sizes of these clients as enums."""
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
        supported = "; ".join(f"{name}: {', '.join(client.sizes)}" for name, client in clients.items())
        sizes["description"] = f"{sizes['description']} Sizes by client: {supported}."
    return replace(image_generation, spec=replace(image_generation.spec, parameters=parameters))
