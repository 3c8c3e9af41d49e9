"""The steps of a scripted model, and the scenes that they belong to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with a fixed text, or with a function of the latest tool result, so that the answer contains real data."""

    text: str | Callable[[str], str]

    def words(self, messages: Sequence[Message]) -> str:
        if isinstance(self.text, str):
            return self.text
        return self.text(latest_result(messages))


@dataclass(frozen=True, slots=True)
class Use:
    """Call one tool."""

    tool: str
    arguments: Mapping[str, Any]


Move = Say | Use


@dataclass(frozen=True, slots=True)
class Scene:
    """One message of the user, and how the scripted model responds.

    Attributes:
        expect: For each call, in order, a short description of its result and whether it must succeed.
    """

    title: str
    message: str
    moves: tuple[Move, ...]
    expect: tuple[tuple[str, bool], ...]


def latest_result(messages: Sequence[Message]) -> str:
    """Return the content of the last tool message, or "" if there is none."""
    for message in reversed(messages):
        if message.get("role") == "tool":
            return str(message.get("content", ""))
    return ""
