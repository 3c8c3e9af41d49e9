"""`vision_analysis`: asks a vision model about an image, or pages of a PDF document, in the workspace."""

import asyncio
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.vision.document_question import DocumentQuestion, ask_about_document, is_pdf
from builtin_tools.vision.page_question import page_names
from engine.contract.context import CallContext, Produced, VisionClient
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.dispatch.refusals import not_configured, wrong_arguments
from engine.dispatch.workspace_folder import folder_of, workspace_failures
from engine.registry.decorate import tool

MAX_BYTES = 20 << 20  # the limit of the large providers for one image
MAX_DOCUMENT_BYTES = 64 << 20

Pages = Annotated[str, Field(min_length=1, max_length=100)]
Query = Annotated[str, Field(min_length=1, max_length=500)]


class VisionOutput(TypedDict):
    """The model's answer about an image, or about pages of a document.

    Attributes:
        pages: The pages of a document that the model saw.
        page_count: The number of pages of the document.
    """

    path: str
    answer: str
    pages: NotRequired[list[int]]
    page_count: NotRequired[int]


@tool(
    required_permission="user",
    category="vision",
    features=("vision",),
    annotations=Annotations(read_only=True, idempotent=True),
    side_effects=("network",),
    cost="cheap",
    timeout_s=180,
)
async def vision_analysis(
    ctx: CallContext,
    path: str,
    question: str = "Describe in detail what is shown.",
    pages: Pages | None = None,
    query: Query | None = None,
) -> Produced[VisionOutput]:
    """Ask a vision model a question about an image or a PDF file in the workspace.

    Use it to read a plot, a photo, a scan, a screenshot, or pages of a document with tables, formulas or figures. It
    accepts PNG, JPEG, GIF, WebP and PDF files. Of a PDF file, select up to 8 pages by number or by what they are about;
    without a selection, the model sees the first 8. For exact pixel values, or the whole text of a document, use
    `execute`.

    Args:
        path: The image or document, relative to the workspace, such as `plots/result.png`.
        question: What you want to know. Ask for exactly what you need: a number, a text, a comparison.
        pages: For PDF files: page numbers and ranges, from 1, such as `3` or `2-5, 9`.
        query: For PDF files, instead of `pages`: what the pages should be about. The 3 best pages are shown.
    """
    if ctx.vision is None:
        raise not_configured(
            "No vision model is configured. A person can set [vision], or `sees = true` in [model], in config.toml."
        )
    with workspace_failures():
        data = await asyncio.to_thread(folder_of(ctx).read, path, MAX_DOCUMENT_BYTES)
    media_type = media_type_of(data)
    if media_type is None and is_pdf(data):
        return await about_document(ctx, ctx.vision, data, DocumentQuestion(path, question, pages, query))
    if pages is not None or query is not None:
        raise wrong_arguments(f"{path!r} is not a PDF file, and only PDF files have pages. Omit `pages` and `query`.")
    if len(data) > MAX_BYTES:
        raise unusable(
            f"{path!r} has {len(data):,} bytes, more than the {MAX_BYTES:,} that models accept. Scale it down."
        )
    if media_type is None:
        raise unusable(
            f"{path!r} is not a PNG, JPEG, GIF or WebP image or a PDF file, judging by its content. Convert it to PNG "
            "first."
        )
    answer = await ctx.vision.describe(question, [(data, media_type)])
    return Produced({"path": path, "answer": answer}, answer)


async def about_document(
    ctx: CallContext, vision: VisionClient, data: bytes, question: DocumentQuestion
) -> Produced[VisionOutput]:
    found = await ask_about_document(ctx, vision, data, question)
    shown = f"[{page_names(found.pages)} of {found.page_count:,}]"
    return Produced(
        {"path": question.path, "answer": found.text, "pages": list(found.pages), "page_count": found.page_count},
        "\n".join((found.text, shown, *found.notes)),
    )


def unusable(message: str) -> ToolFailure:
    return ToolFailure(message, reason="unusable_image", may_have_started=False)


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
