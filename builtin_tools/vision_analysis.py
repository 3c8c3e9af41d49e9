"""`vision_analysis`: show an image of the workspace to a model that sees."""

import asyncio

from typing_extensions import TypedDict

from builtin_tools.refusals import not_configured
from builtin_tools.workspace import explained, folder_of
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.registry.decorate import tool

MAX_BYTES = 20 << 20  # what the large providers accept for one image


class VisionOutput(TypedDict):
    """What the model saw."""

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
    """Look at an image file of the workspace and answer a question about it.

    Takes PNG, JPEG, GIF and WebP. It does not take PDF files: turn a page into a PNG first.

    Args:
        path: The image, relative to the workspace, such as `plots/result.png`.
        question: What you want to know. Ask for exactly what you need: a number, a text, a comparison.
    """
    if ctx.vision is None:
        raise not_configured(
            "No model that sees is configured. A person can set [vision], or `sees = true` in [model]."
        )
    with explained():
        data = await asyncio.to_thread(folder_of(ctx).read, path, MAX_BYTES)
    media_type = media_type_of(data)
    if media_type is None:
        raise ToolFailure(
            f"{path!r} is not a PNG, JPEG, GIF or WebP image, judged by its bytes, not by its name. Convert it first.",
            reason="unusable_image",
            may_have_started=False,
        )
    answer = await ctx.vision.describe(question, [(data, media_type)])
    return Produced({"path": path, "answer": answer}, answer)


def media_type_of(data: bytes) -> str | None:
    """The media type of an image that models accept, by its signature; None for anything else.

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
