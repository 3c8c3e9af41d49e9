"""Reads a selection of pages such as ``2-5, 9``."""

import re

from engine.contract.failure import ToolFailure
from engine.dispatch.refusals import wrong_arguments

_PART = re.compile(r"\s*(\d{1,6})\s*(?:[-\u2013]\s*(\d{1,6})\s*)?")


def selected_pages(text: str, most: int) -> list[int]:
    """Return the selected page numbers, sorted.

    Args:
        text: Numbers and ranges, separated by commas.
        most: The largest number of pages.

    Raises:
        ToolFailure: The text is not a selection, or it selects more than `most` pages (DIAGNOSTIC).
    """
    chosen: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            raise wrong_arguments(
                f"{text[:80]!r} selects no pages. Use numbers from 1 and ranges, such as `3` or `2-5, 9`."
            )
        if last - first >= most:
            raise _too_many(last - first + 1, most)
        chosen.update(range(first, last + 1))
    if len(chosen) > most:
        raise _too_many(len(chosen), most)
    return sorted(chosen)


def _too_many(count: int, most: int) -> ToolFailure:
    return wrong_arguments(
        f"`pages` selects {count:,} pages, and one call can show {most}. Select fewer, and call the tool again for "
        "the others."
    )
