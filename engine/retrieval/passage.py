"""`Passage`: a piece of text that a `PassageIndex` finds, and `PassageFilter`, which restricts a search."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A short text with its place in a document or conversation.

    Attributes:
        text: The text itself, at most a few hundred words.
        title: What the text belongs to, in words that a request may use: a speaker, a heading path, a subject.
        group: The document or conversation that the text is a part of; "" for a text on its own.
        position: The position in the group. Passages with consecutive positions are neighbours.
        kind: The kind of the text, such as ``"fact"``. Filters compare it for equality.
        space: The memory space of the text. Filters compare it for equality.
        time: When the text was said or learned, in seconds since the epoch.
        valid_from, valid_to: The interval in which the text is true, in seconds since the epoch; None for an open end.
            `valid_to` itself is not part of the interval.
    """

    id: str
    text: str
    title: str = ""
    group: str = ""
    position: int = 0
    kind: str = ""
    space: str = ""
    time: float = 0.0
    valid_from: float | None = None
    valid_to: float | None = None


@dataclass(frozen=True, slots=True)
class PassageFilter:
    """Restricts what a search may return. A field that is None sets no restriction.

    Attributes:
        since, until: Bounds of `Passage.time`. `until` itself is excluded.
        as_of: A time at which a passage must be true, in seconds since the epoch.
    """

    kinds: Collection[str] | None = None
    spaces: Collection[str] | None = None
    groups: Collection[str] | None = None
    since: float | None = None
    until: float | None = None
    as_of: float | None = None


EVERYTHING = PassageFilter()


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage that a search found.

    Attributes:
        score: Orders the results of one search; not comparable between searches.
        fit: The probability that the passage answers the request, from 0 to 1. Comparable between searches.
    """

    id: str
    score: float
    fit: float
