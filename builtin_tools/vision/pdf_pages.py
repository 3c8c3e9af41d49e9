"""Renders pages of PDF documents, and reads their text layers, in boxes.

Documents are not trusted, and neither is what a box returns about them: a malicious document may have forged it.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builtin_tools.documents.box_reading import box_files, forged, problem_of, unreadable
from engine.remote.text import clean, one_line
from sandbox.contract import Call, Job, Limits, Outcome, Sandbox

MOST_PAGES = 8  # pages in one request to the vision model
LONGEST_SIDE = 1_568  # pixels; larger images are scaled down by Anthropic's models, and text of a letter is readable
MOST_PICTURE_BYTES = 4 << 20  # below the smallest limit of the large providers for one image, 5 MB
MOST_REQUEST_BYTES = 20 << 20  # of all pictures of one request
MOST_TEXT = 8_000  # characters of the text layer of one page
_ENTRY = "show_document_.py"
_DOCUMENT = "document.pdf"
_OUTPUT = "pages.json"
_NOTES = 20
_PNG = b"\x89PNG\r\n\x1a\n"
LIMITS = Limits(
    wall_s=60.0,
    cpu_s=60.0,
    memory_bytes=1024 << 20,
    file_size_bytes=64 << 20,
    disk_bytes=256 << 20,
    output_bytes=1 << 20,
)


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page of a document.

    Attributes:
        number: The number of the page, from 1.
        png: Its picture.
        text: Its text layer, cut to `MOST_TEXT` characters; "" if it has none.
    """

    number: int
    png: bytes
    text: str


@dataclass(frozen=True, slots=True)
class RenderedPages:
    """Some pages of a document.

    Attributes:
        count: The number of pages of the whole document.
        notes: What is missing, such as damaged pages.
    """

    count: int
    pages: tuple[RenderedPage, ...]
    notes: tuple[str, ...]


async def read_page_texts(sandbox: Sandbox, data: bytes, *, name: str, agent: str = "") -> list[str]:
    """Return the text layer of each page of a PDF document.

    Args:
        sandbox: Runs the box.
        data: The document.
        name: The name of the document in error messages.
        agent: The agent for which the job runs.

    Raises:
        ToolFailure: The document cannot be read (DIAGNOSTIC).
    """
    outcome = await _run(sandbox, await _job(data, "read_texts", {}, agent=agent), name)
    return await asyncio.to_thread(_checked_texts, outcome.files[_OUTPUT], name)


async def render_pages(
    sandbox: Sandbox, data: bytes, numbers: Sequence[int], *, name: str, agent: str = ""
) -> RenderedPages:
    """Render pages of a PDF document.

    Args:
        sandbox: Runs the box.
        data: The document.
        numbers: At most `MOST_PAGES` pages, from 1; if empty, the first `MOST_PAGES`.
        name: The name of the document in error messages.
        agent: The agent for which the job runs.

    Raises:
        ToolFailure: The document cannot be read, or none of the pages can be rendered (DIAGNOSTIC).
    """
    arguments = {
        "numbers": list(numbers),
        "most_pages": MOST_PAGES,
        "longest_side": LONGEST_SIDE,
        "most_bytes": min(MOST_PICTURE_BYTES, MOST_REQUEST_BYTES // (len(numbers) or MOST_PAGES)),
    }
    pictures = tuple(f"page-{number}.png" for number in numbers or range(1, MOST_PAGES + 1))
    outcome = await _run(sandbox, await _job(data, "render", arguments, pictures, agent=agent), name)
    return await asyncio.to_thread(_checked_pages, outcome.files, name)


async def _job(
    data: bytes, function: str, arguments: Mapping[str, Any], pictures: tuple[str, ...] = (), *, agent: str
) -> Job:
    files = await asyncio.to_thread(box_files, _ENTRY, "pdf_pages", function)
    return Job(
        call=Call(_ENTRY, function, {"path": _DOCUMENT, **arguments}),
        files={**files, _DOCUMENT: data},
        preload=("pypdfium2",),
        collect=(_OUTPUT, *pictures),
        limits=LIMITS,
        agent=agent,
    )


async def _run(sandbox: Sandbox, job: Job, name: str) -> Outcome:
    outcome = await sandbox.run(job)
    if outcome.error is not None and outcome.error.type in {"ImportError", "ModuleNotFoundError"}:
        raise unreadable(name, "reading pdf needs pypdfium2: pip install pypdfium2.")
    problem = problem_of(outcome, job.limits, _OUTPUT, "it has no pages.", "Select other pages, or split it.")
    if problem:
        raise unreadable(name, problem)
    return outcome


def _checked_texts(data: bytes, name: str) -> list[str]:
    try:
        found: dict[str, Any] = json.loads(data)
        return [clean(str(text), MOST_TEXT) for text in found["texts"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise forged(name) from error


def _checked_pages(files: Mapping[str, bytes], name: str) -> RenderedPages:
    try:
        found: dict[str, Any] = json.loads(files[_OUTPUT])
        pages = tuple(
            RenderedPage(
                int(each["number"]), files[f"page-{int(each['number'])}.png"], clean(str(each["text"]), MOST_TEXT)
            )
            for each in found["pages"]
        )
        notes = tuple(one_line(str(note)) for note in found["notes"][:_NOTES])
        count = int(found["count"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise forged(name) from error
    if not 1 <= len(pages) <= MOST_PAGES or not all(_is_picture(page.png) for page in pages):
        raise forged(name)
    return RenderedPages(count, pages, notes)


def _is_picture(data: bytes) -> bool:
    """Return whether data starts as a PNG file of an allowed size: signature, IHDR chunk, width and height."""
    sides = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    # PDFium rounds the sides up.
    return (
        data.startswith(_PNG)
        and len(data) <= MOST_PICTURE_BYTES
        and all(1 <= side <= LONGEST_SIDE + 1 for side in sides)
    )
