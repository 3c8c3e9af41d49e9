"""The pages of the corpus: real pages of documentation packages, Knackbox's own documentation, and hostile pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape, unescape
from pathlib import Path
from urllib.parse import quote

from markdown_it import MarkdownIt

REPOSITORY = Path(__file__).resolve().parents[4]
_DOCUMENTATION = Path("/usr/share/doc")


def _newest(pattern: str) -> Path:
    """Return the folder of the newest version that is installed; one that does not exist if there is none."""
    return max(_DOCUMENTATION.glob(pattern), default=_DOCUMENTATION / pattern)


# Debian's packages python3-doc, postgresql-doc, debian-policy, debian-reference-en, sqlite3-doc, git-doc and
# developers-reference, which `make test-services` installs.
PACKAGES = {
    "python.test": _newest("python3.*/html"),
    "postgresql.test": _newest("postgresql-doc-*/html"),
    "policy.test": Path("/usr/share/doc/debian-policy"),
    "reference.test": Path("/usr/share/debian-reference"),
    "sqlite.test": Path("/usr/share/doc/sqlite3"),
    "git.test": Path("/usr/share/doc/git-doc"),
    "developers.test": Path("/usr/share/developers-reference"),
}
OWN = "knackbox.test"
_NOT_PAGES = frozenset({"search.html", "genindex-all.html"})
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(rb"(?s)<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>")


@dataclass(frozen=True)
class CorpusPage:
    """A page of the corpus. Real pages are read from their file when they are requested."""

    host: str
    path: str
    file: Path | None = None
    content: bytes = b""
    media_type: str = "text/html; charset=utf-8"
    date: str = ""

    @property
    def url(self) -> str:
        return f"http://{self.host}{quote(self.path)}"

    @property
    def data(self) -> bytes:
        return self.file.read_bytes() if self.file is not None else self.content

    @cached_property
    def title(self) -> str:
        match = _TITLE.search(self.data)
        text = match[1].decode(errors="replace") if match else self.path
        return " ".join(unescape(text).split())

    @cached_property
    def words(self) -> str:
        """Everything that the page says, as far as an index needs it."""
        return " ".join(unescape(_TAG.sub(b" ", self.data[:60_000]).decode(errors="replace")).split())


def package_pages() -> Iterator[CorpusPage]:
    """Yield the pages of the documentation packages that are installed."""
    for host, folder in PACKAGES.items():
        for file in sorted(folder.rglob("*.html")):
            if file.is_file() and file.name not in _NOT_PAGES:
                yield CorpusPage(host, f"/{file.relative_to(folder)}", file)


def own_pages() -> Iterator[CorpusPage]:
    """Yield Knackbox's documentation as HTML."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    for file in sorted((REPOSITORY / "docs").rglob("*.md")):
        text = file.read_text("utf-8")
        title = text.partition("\n")[0].lstrip("# ")
        yield written(
            OWN, f"/{file.relative_to(REPOSITORY / 'docs').with_suffix('.html')}", title, markdown.render(text)
        )


def written(host: str, path: str, title: str, body: str, *, head: str = "", date: str = "") -> CorpusPage:
    """Return a page with this body."""
    made = f'<meta property="article:published_time" content="{date}">' if date else ""
    html = (
        f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>{made}{head}</head>"
        f"<body><main><article>{body}</article></main></body></html>"
    )
    return CorpusPage(host, path, content=html.encode(), date=date)
