"""What a scripted model may do when it is asked: say something, or use tools. And the scenes it does it in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    """Answer. text: the words, or a function that makes them of the latest tool result, so that real data is told."""

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
    """One message of the user, and what the scripted model does about it.

    expect: what the results of its calls must show, in order: a word about each, and whether it is to succeed.
    """

    title: str
    message: str
    moves: tuple[Move, ...]
    expect: tuple[tuple[str, bool], ...]


def latest_result(messages: Sequence[Message]) -> str:
    """The content of the last tool message, "" when there is none."""
    for message in reversed(messages):
        if message.get("role") == "tool":
            return str(message.get("content", ""))
    return ""
