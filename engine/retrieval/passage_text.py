"""The texts of a passage that are indexed and embedded, with their weights."""

from engine.retrieval.document import Field
from engine.retrieval.passage import Passage

MOST_CHARACTERS = 8_000  # characters read from a passage


def fields_of(passage: Passage) -> tuple[Field, ...]:
    """Return the fields for BM25."""
    return (
        Field(passage.title[:MOST_CHARACTERS], usual=2.0, b=0.3),
        Field(passage.text[:MOST_CHARACTERS], usual=12.0),
    )


def embedded_text(passage: Passage) -> str:
    """Return the text that is embedded."""
    return f"{passage.title}: {passage.text}" if passage.title else passage.text
