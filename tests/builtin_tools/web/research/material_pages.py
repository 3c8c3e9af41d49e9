"""The pages, questions and claims of the tests of research.

The rules of verification were built with the pages of ``building.txt``. Those of ``held_out.txt`` were written before
the rules first ran, and the others afterwards. docs/design/research.md has the results of the first runs.
"""

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from builtin_tools.web.research.verification.support import UnsupportedKind

FOLDER = Path(__file__).with_name("material")
PARTS = ("building", "held_out")
FRESH = ("fresh", "fresh_harder")


@dataclass(frozen=True)
class WrittenClaim:
    """A claim about a page with a quotation of it.

    Attributes:
        changed: What was changed so that the quotation does not support the claim; None for a true claim.
    """

    text: str
    quote: str
    changed: UnsupportedKind | None = None


@dataclass
class WrittenQuestion:
    text: str
    claims: list[WrittenClaim] = field(default_factory=list)


@dataclass
class WrittenPage:
    url: str
    title: str
    date: str
    text: str
    questions: list[WrittenQuestion] = field(default_factory=list)

    @property
    def html(self) -> bytes:
        """The page as HTML, with the parts around the text that pages have."""
        paragraphs = "".join(f"<p>{escape(line)}</p>\n" for line in self.text.splitlines())
        menu = "".join(f'<li><a href="/{word}">{word}</a></li>' for word in ("home", "news", "about", "contact"))
        return (
            f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{escape(self.title)}</title>"
            f'<meta property="article:published_time" content="{self.date}"></head><body><nav><ul>{menu}</ul></nav>'
            f"<article><h1>{escape(self.title)}</h1>\n{paragraphs}</article><footer>Copyright and imprint</footer></body></html>"
        ).encode()

    @property
    def claims(self) -> list[WrittenClaim]:
        return [claim for question in self.questions for claim in question.claims]


def pages_of(part: str) -> list[WrittenPage]:
    """Read the pages of a part of the material."""
    return [_page(block) for block in (FOLDER / f"{part}.txt").read_text("utf-8").split("\n\n")]


def _page(block: str) -> WrittenPage:
    head, *lines = block.strip().splitlines()
    url, title, date = (each.strip() for each in head.removeprefix("# ").split(" | "))
    page = WrittenPage(url, title, date, "\n".join(line for line in lines if line[:2] not in {"? ", "+ ", "- "}))
    for line in lines:
        mark, rest = line[:2], line[2:].strip()
        if mark == "? ":
            page.questions.append(WrittenQuestion(rest))
        elif mark in {"+ ", "- "}:
            text, quote = (each.strip() for each in rest.split(" | "))
            changed = None
            if mark == "- ":
                kind, _, text = text.partition(": ")
                changed = UnsupportedKind(kind)
            page.questions[-1].claims.append(WrittenClaim(text, quote, changed))
    return page
