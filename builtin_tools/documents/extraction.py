"""Reads documents in boxes, because documents and the libraries that read them are not trusted."""

import asyncio
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from builtin_tools.documents.box_reading import box_files, forged, problem_of, unreadable
from sandbox.contract import Call, Job, Limits, Sandbox

_ENTRY = "extract_document_.py"
_OUTPUT = "extracted.json"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_MOST_LINKS = 500
_MOST_OUTPUT = 256 << 20  # bytes of the extracted text as JSON
# The template imports these once, so that no document waits for the imports.
_PRELOAD = {
    "pdf": ("pypdfium2",),
    "docx": ("docx",),
    "pptx": ("pptx",),
    "xlsx": ("openpyxl",),
    "epub": ("lxml.html",),
    "html": ("lxml.html",),
    "markdown": ("markdown_it", "charset_normalizer"),
    "web_page": ("trafilatura", "tinycss2", "cssselect"),
}
WEB_PAGE = "web_page"  # the format of `extract` that finds the main text of an HTML page
LIMITS = Limits(
    wall_s=100.0,
    cpu_s=100.0,
    memory_bytes=1536 << 20,
    file_size_bytes=_MOST_OUTPUT,
    disk_bytes=768 << 20,
    output_bytes=1 << 20,
)
LIMITS_WITH_OCR = replace(LIMITS, wall_s=580.0, cpu_s=580.0)  # recognition itself stops earlier


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document.

    Attributes:
        start: The offset of the heading in the text.
        level: 1 for the highest.
    """

    start: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The text of a document.

    Attributes:
        title: The title in the document's metadata; "" if there is none.
        pages: The offset at which each page begins; empty if the format has no pages.
        notes: What a person should know about the text, such as that pages have no text.
        author, date: What a page of the web states about itself; the date as YYYY-MM-DD, or "".
        links: The absolute URLs to which a page of the web links, and the texts of the links.
    """

    text: str
    title: str = ""
    pages: tuple[int, ...] = ()
    headings: tuple[Heading, ...] = ()
    notes: tuple[str, ...] = ()
    author: str = ""
    date: str = ""
    links: tuple[tuple[str, str], ...] = ()


async def extract(
    sandbox: Sandbox,
    data: bytes,
    format_name: str,
    *,
    name: str,
    agent: str = "",
    ocr: str = "",
    url: str = "",
    charset: str = "",
) -> ExtractedText:
    """Read a document in a fresh box without network.

    Args:
        sandbox: Runs the box.
        data: The document.
        format_name: A key of `MEDIA_TYPES` in `formats`, or `WEB_PAGE`.
        name: The name of the document in error messages.
        agent: The agent for which the job runs.
        ocr: The languages in which tesseract recognizes the text of scanned pages, such as ``eng+deu``; "" for none.
        url: The URL of a `WEB_PAGE`.
        charset: The encoding of a `WEB_PAGE`, as its server stated it; "" for none.

    Raises:
        ToolFailure: The document cannot be read (DIAGNOSTIC). The message names the cause.
    """
    files = {**await asyncio.to_thread(box_files, _ENTRY, "extract", "extract"), f"document.{format_name}": data}
    options = {"pdf": {"ocr": ocr}, WEB_PAGE: {"url": url, "charset": charset}}.get(format_name, {})
    path = f"document.{format_name}"
    job = Job(
        call=Call(_ENTRY, "extract", {"path": path, "format_name": format_name, "options": options}),
        files=files,
        preload=_PRELOAD.get(format_name, ()),
        collect=(_OUTPUT,),
        limits=LIMITS_WITH_OCR if ocr and format_name == "pdf" else LIMITS,
        agent=agent,
    )
    outcome = await sandbox.run(job)
    problem = problem_of(outcome, job.limits, _OUTPUT, "it has no text.")
    if problem:
        raise unreadable(name, problem)
    return await asyncio.to_thread(_read, outcome.files[_OUTPUT], name)


def _read(data: bytes, name: str) -> ExtractedText:
    """Check and convert the file that a box wrote. A malicious document may have forged it.

    Raises:
        ToolFailure: The file is malformed.
    """
    try:
        found: dict[str, Any] = json.loads(data)
        text, pages = str(found["text"]), tuple(int(start) for start in found["pages"])
        headings = tuple(Heading(int(start), int(level), str(title)) for start, level, title in found["headings"])
        notes = tuple(str(note)[:500] for note in found["notes"][:20])
        title, author = str(found["title"])[:300], str(found["author"])[:300]
        links = tuple((str(url)[:2000], str(label)[:200]) for url, label in found["links"][:_MOST_LINKS])
        date = _DATE.match(str(found["date"]))
        for part in (text, title, author, *(each for link in links for each in link)):
            part.encode()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise forged(name) from error
    places = [*pages, *(heading.start for heading in headings)]
    if any(not 0 <= place <= len(text) for place in places) or list(pages) != sorted(pages):
        raise forged(name)
    return ExtractedText(text, title, pages, headings, notes, author, date[0] if date else "", links)
