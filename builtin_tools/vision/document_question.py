"""Asks a vision model about pages of a PDF document in the workspace."""

from dataclasses import dataclass

from builtin_tools.vision.page_finder import PageFinder
from builtin_tools.vision.page_question import page_names, page_question
from builtin_tools.vision.page_selection import selected_pages
from builtin_tools.vision.pdf_pages import MOST_PAGES, read_page_texts, render_pages
from engine.contract.context import CallContext, VisionClient
from engine.contract.failure import ToolFailure
from engine.dispatch.refusals import wrong_arguments

PDF_SIGNATURE = b"%PDF-"
_SIGNATURE_WITHIN = 1024  # bytes: ISO 32000-1, Annex H.3, implementation note 13


@dataclass(frozen=True, slots=True)
class DocumentQuestion:
    """A question about pages of a document.

    Attributes:
        path: The path of the document in the workspace.
        text: The question.
        pages: The selected pages (see `selected_pages`); None for the first ones, or those that match `query`.
        query: What the pages should be about; None if `pages` selects them.
    """

    path: str
    text: str
    pages: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    """The model's answer about pages of a document.

    Attributes:
        pages: The pages that the model saw.
        page_count: The number of pages of the document.
        notes: What a person should know, such as that the model saw only some of the pages.
    """

    text: str
    pages: tuple[int, ...]
    page_count: int
    notes: tuple[str, ...]


def is_pdf(data: bytes) -> bool:
    """Return whether a file is a PDF document, judging by its first bytes."""
    return PDF_SIGNATURE in data[:_SIGNATURE_WITHIN]


async def ask_about_document(
    ctx: CallContext, vision: VisionClient, data: bytes, question: DocumentQuestion
) -> DocumentAnswer:
    """Ask a vision model about pages of a PDF document.

    Args:
        ctx: The call.
        vision: The model.
        data: The document.
        question: The question, and the selection of pages.

    Raises:
        ToolFailure: The arguments select no pages, or the document or the model failed.
    """
    numbers = await _numbers(ctx, data, question)
    ctx.progress("rendering the pages", None)
    rendered = await render_pages(ctx.sandbox, data, numbers, name=question.path, agent=ctx.turn.agent)
    seen = tuple(page.number for page in rendered.pages)
    ctx.progress(f"asking about {page_names(seen)}", None)
    images = [(page.png, "image/png") for page in rendered.pages]
    answer = await vision.describe(page_question(question.text, rendered), images)
    notes = list(rendered.notes)
    if not numbers and rendered.count > MOST_PAGES:
        notes.append(f"Only the first {MOST_PAGES} pages were shown. Select others with `pages` or `query`.")
    return DocumentAnswer(answer, seen, rendered.count, tuple(notes))


async def _numbers(ctx: CallContext, data: bytes, question: DocumentQuestion) -> list[int]:
    """Return the numbers of the selected pages; empty if the question selects none."""
    if question.pages is not None and question.query is not None:
        raise wrong_arguments("`pages` and `query` both select pages. Use one of them.")
    if question.pages is not None:
        return selected_pages(question.pages, MOST_PAGES)
    if question.query is None:
        return []
    ctx.progress("reading the text of the pages", None)
    texts = await read_page_texts(ctx.sandbox, data, name=question.path, agent=ctx.turn.agent)
    ctx.progress("ranking the pages", None)
    numbers = await ctx.need(PageFinder).find(texts, question.query)
    if not numbers:
        raise ToolFailure(
            f"{question.path}: none of its {len(texts):,} pages has text that can be searched. They may be scans. "
            "Select pages by number with `pages`.",
            reason="no_text_layer",
            may_have_started=False,
        )
    return numbers
