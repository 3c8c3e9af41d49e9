"""`Entry`: one thing that is remembered, with its source and the time in which it holds.

All times are in seconds since the epoch. An entry's text never changes; a statement that replaces it is another entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from engine.retrieval.passage import Passage


class EntryKind(StrEnum):
    """What an entry is.

    Attributes:
        FACT: A statement that somebody made.
        PASSAGE: A part of a document.
        LESSON: A mistake and its fix.
        PROFILE: An item of the user's profile, whose attribute is its key.
    """

    FACT = "fact"
    PASSAGE = "passage"
    LESSON = "lesson"
    PROFILE = "profile"


class SourceKind(StrEnum):
    """Where an entry comes from.

    Attributes:
        USER: A person entered it.
        TOOL: A tool call stored it.
        DOCUMENT: It is a range of characters of a document.
        CONSOLIDATION: It was derived from other entries.
    """

    USER = "user"
    TOOL = "tool"
    DOCUMENT = "document"
    CONSOLIDATION = "consolidation"


@dataclass(frozen=True, slots=True)
class EntrySource:
    """The provenance of an entry.

    Attributes:
        user, agent: For whom and by whom it was stored.
        call_id: The call that stored it; "" if it was not a call.
        page: The page of the document, from 1; None if the document has no pages.
        start, end: The range of characters in the document's extracted text; `end` is excluded.
        of: Ids of the entries from which it was derived.
    """

    kind: SourceKind
    user: str = ""
    agent: str = ""
    call_id: str = ""
    page: int | None = None
    start: int | None = None
    end: int | None = None
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """What a fact says, so that statements about the same thing can be compared.

    Attributes:
        subject: What the fact is about, in lower case; ``"user"`` for the user who speaks.
        attribute: The property, in lower case, such as ``"home"``.
        value: Its value, as it was written.
        negated: The fact denies this value.
        multiple: The attribute can have several values at once, so that a new one does not replace the others.
    """

    subject: str
    attribute: str
    value: str
    negated: bool = False
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be stored.

    Attributes:
        owner: ``user:<name>`` or a shared space (`builtin_tools.memory.scope`).
        title: What the text belongs to, such as the headings above a passage. It is searched, too.
        document: The id of the document that a passage is part of; "" for others.
        position: The place of a passage in its document, from 0.
        learned: When it was learned; None for now.
        holds_from, holds_to: The interval in which it holds; None for an open end. `holds_to` is excluded.
        skeleton: A key that is equal for texts that differ only in numbers or negation; "" for none.
        data: JSON values that belong to the kind, such as the counts of a lesson.
    """

    owner: str
    space: str
    kind: EntryKind
    text: str
    source: EntrySource
    title: str = ""
    document: str = ""
    position: int = 0
    learned: float | None = None
    holds_from: float | None = None
    holds_to: float | None = None
    statement: Statement | None = None
    skeleton: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored entry. The attributes that `NewEntry` also has are explained there.

    Attributes:
        successor: The id of the entry that replaced it; "" for none.
        generation: The generation of its last change.
    """

    id: str
    owner: str
    space: str
    kind: EntryKind
    text: str
    source: EntrySource
    title: str
    document: str
    position: int
    learned: float
    holds_from: float | None
    holds_to: float | None
    successor: str
    statement: Statement | None
    skeleton: str
    data: Mapping[str, Any]
    generation: int

    @property
    def begins(self) -> float:
        """When it begins to hold. Without a known beginning, when it was learned."""
        return self.learned if self.holds_from is None else self.holds_from

    def holds_at(self, time: float) -> bool:
        """Return whether it holds at a time."""
        after = self.holds_from is None or self.holds_from <= time
        return after and (self.holds_to is None or time < self.holds_to)

    def passage(self) -> Passage:
        """Return what the index of its owner contains of it."""
        return Passage(
            id=self.id,
            text=self.text,
            title=self.title,
            group=self.document,
            position=self.position,
            kind=self.kind.value,
            space=self.space,
            time=self.learned,
            valid_from=self.holds_from,
            valid_to=self.holds_to,
        )


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document whose passages are entries.

    Attributes:
        uri: Where it was read: a path in the workspace, or a URL.
        digest: SHA-256 of its bytes, in hexadecimal digits.
        media_type: The format that was detected, such as ``"application/pdf"``.
        text: The extracted text, to which the offsets of its passages refer.
        learned: When this version was stored.
        data: JSON values, such as the number of pages.
    """

    id: str
    owner: str
    space: str
    uri: str
    title: str
    digest: str
    media_type: str
    text: str
    learned: float
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenPair:
    """Two facts that may contradict each other.

    Attributes:
        older, newer: Their ids.
        why: The reason, in words for people.
    """

    older: str
    newer: str
    why: str
