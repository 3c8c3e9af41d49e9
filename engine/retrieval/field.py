"""`Field`: a part of a document, and how much its words count."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a document. usual: its length in terms as a rule. b: how much a longer one is held against it."""

    text: str
    weight: float = 1.0
    usual: float = 12.0
    b: float = 0.75
