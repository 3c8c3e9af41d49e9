"""`PageCache`: pages that were read, by URL and by the digest of their text."""

import hashlib
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

from builtin_tools.web.cached_files import CachedFiles
from builtin_tools.web.contract import Page, PageLink


class PageCache:
    """Keeps pages in a folder. The methods block.

    The text of a page is stored once, by its digest, with the page on which it was last found. What else is known about
    the page at a URL is stored by the URL. So one text at two URLs is two pages with the same digest.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Create the cache.

        Args:
            folder: Contains nothing else.
            most_bytes: The limit of the size of all pages.
        """
        self._pages = CachedFiles(folder / "by_digest", most_bytes)
        self._urls = CachedFiles(folder / "by_url", max(1 << 20, most_bytes // 8))

    def at(self, url: str) -> Page | None:
        """Return the page that was last read at a URL; None if there is none."""
        found = self._urls.get(_key(url))
        if found is None or found.get("url") != urldefrag(url).url:
            return None
        with_text = self._pages.get(str(found.get("sha256")))
        return None if with_text is None else _page({**found, "text": with_text.get("text")}, str(found["sha256"]))

    def with_digest(self, sha256: str) -> Page | None:
        """Return the page whose text has this digest; None if there is none."""
        found = self._pages.get(sha256)
        return None if found is None else _page(found, sha256)

    def put(self, page: Page) -> None:
        """Store a page. The text is stored first, so that a URL never leads to a text that does not exist.

        Raises:
            OSError: It cannot be stored.
        """
        page = replace(page, url=urldefrag(page.url).url)
        fields = asdict(page) | {"fetched_at": page.fetched_at.isoformat()}
        self._pages.put(page.sha256, fields)
        self._urls.put(_key(page.url), {name: value for name, value in fields.items() if name != "text"})


def digest_of(text: str) -> str:
    """Return the hex digest of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def _key(url: str) -> str:
    return digest_of(urldefrag(url).url)


def _page(found: dict[str, Any], sha256: str) -> Page | None:
    """Return a stored page; None if it is damaged, or its text has another digest."""
    try:
        page = Page(
            url=str(found["url"]),
            final_url=str(found["final_url"]),
            text=found["text"],
            sha256=sha256,
            fetched_at=datetime.fromisoformat(found["fetched_at"]),
            route=str(found["route"]),
            title=str(found["title"]),
            date=str(found["date"]),
            author=str(found["author"]),
            media_type=str(found["media_type"]),
            links=tuple(PageLink(str(link["url"]), str(link["text"])) for link in found["links"]),
            page_starts=tuple(int(start) for start in found["page_starts"]),
            notes=tuple(str(note) for note in found["notes"]),
        )
        return page if digest_of(page.text) == sha256 else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
