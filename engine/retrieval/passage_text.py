"""The texts of a passage that are indexed and embedded, with their weights."""

from datetime import UTC, datetime

from engine.retrieval.document import Field
from engine.retrieval.passage import Passage

MOST_CHARACTERS = 8_000  # characters read from a title or a text
_CLOSING = " \t\r\n\"')]}*_\u2019\u201d"  # characters that may follow the question mark at the end of a question


def fields_of(passage: Passage) -> tuple[Field, ...]:
    """Return the fields for BM25: the title, the text, and the month of the passage, since requests name months."""
    return (
        Field(passage.title[:MOST_CHARACTERS], usual=2.0, b=0.3),
        Field(passage.text[:MOST_CHARACTERS], b=0.4),
        Field(month_of(passage.time), usual=2.0, b=0.0),
    )


def embedded_text(passage: Passage) -> str:
    """Return the text to embed: the title, if any, and the text."""
    title, text = passage.title[:MOST_CHARACTERS], passage.text[:MOST_CHARACTERS]
    return f"{title}: {text}" if title else text


def asks(passage: Passage) -> bool:
    """Return whether a passage ends with a question."""
    return passage.text.rstrip(_CLOSING).endswith("?")


def month_of(time: float) -> str:
    """Return the month and year of a time, such as "March 2026"; "" for 0, which stands for an unknown time."""
    if not time:
        return ""
    try:
        return f"{datetime.fromtimestamp(time, UTC):%B %Y}"
    except (OverflowError, ValueError, OSError):
        return ""
