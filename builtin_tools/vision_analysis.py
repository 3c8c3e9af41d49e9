"""`vision_analysis`: asks a vision model about an image in the workspace."""

import asyncio

from typing_extensions import TypedDict

from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.dispatch.refusals import not_configured
from engine.dispatch.workspace_folder import folder_of, workspace_failures
from engine.registry.decorate import tool

MAX_BYTES = 20 << 20  # the limit of the large providers for one image


class VisionOutput(TypedDict):
    """The model's answer about an image."""

    path: str
    answer: str


@tool(
    required_permission="user",
    category="vision",
    features=("vision",),
    annotations=Annotations(read_only=True, idempotent=True),
    side_effects=("network",),
    cost="cheap",
    timeout_s=120,
)
async def vision_analysis(
    ctx: CallContext, path: str, question: str = "Describe this image in detail."
) -> Produced[VisionOutput]:
    """Ask a vision model a question about an image file in the workspace.

    Use it to read a plot, a photo, a scan or a screenshot. It accepts PNG, JPEG, GIF and WebP files. For a PDF file,
    convert the page to a PNG first. For exact pixel values, use `execute`.

    Args:
        path: The image, relative to the workspace, such as `plots/result.png`.
        question: What you want to know. Ask for exactly what you need: a number, a text, a comparison.
    """
    if ctx.vision is None:
        raise not_configured(
            "No vision model is configured. A person can set [vision], or `sees = true` in [model], in config.toml."
        )
    with workspace_failures():
        data = await asyncio.to_thread(folder_of(ctx).read, path, MAX_BYTES)
    media_type = media_type_of(data)
    if media_type is None:
        raise ToolFailure(
            f"{path!r} is not a PNG, JPEG, GIF or WebP image, judging by its content. Convert it to PNG first.",
            reason="unusable_image",
            may_have_started=False,
        )
    answer = await ctx.vision.describe(question, [(data, media_type)])
    return Produced({"path": path, "answer": answer}, answer)


def media_type_of(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF or WebP image, by its signature; None for anything else.

    Signatures: https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:14] == b"WEBPVP":
        return "image/webp"
    return None
