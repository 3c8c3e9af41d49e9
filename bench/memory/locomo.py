"""Reads LoCoMo: long conversations, and questions with the turns that are evidence for their answers."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.retrieval.passage import Passage

HELP = (
    "memory needs --data DIR with the folder locomo, which has JSON files like locomo10.json of "
    "https://github.com/snap-research/locomo: a list of objects with conversation and qa."
)
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop", 5: "adversarial"}
_EVIDENCE = re.compile(r"D:?(\d+):0*(\d+)")
_SESSION = re.compile(r"session_(\d+)")


@dataclass(frozen=True, slots=True)
class LocomoQuestion:
    """A question about a conversation.

    Attributes:
        category: A key of `CATEGORIES`.
        turns: The ids of the turns that are evidence.
    """

    text: str
    category: int
    turns: frozenset[str]

    @property
    def sessions(self) -> frozenset[str]:
        """The sessions of these turns."""
        return frozenset(session_of(turn) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class LocomoConversation:
    """One home of memories: each turn is a passage, and its session is the group of the passage."""

    passages: Mapping[str, Passage]
    questions: Sequence[LocomoQuestion]


def session_of(turn: str) -> str:
    """Return the session of a turn: ``D1`` of ``D1:3``."""
    return turn.partition(":")[0]


def read_locomo(folder: Path) -> list[LocomoConversation]:
    """Read all JSON files in a folder. Questions without evidence are left out.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is not JSON, or the date of a session has another format.
        KeyError: A field is missing.
    """
    files = sorted(folder.glob("*.json"))
    return [_conversation(each) for file in files for each in json.loads(file.read_text(encoding="utf-8"))]


def _conversation(content: Mapping[str, Any]) -> LocomoConversation:
    sessions = content["conversation"]
    passages: dict[str, Passage] = {}
    for key in sessions:
        if not (found := _SESSION.fullmatch(key)):
            continue
        time = _time(sessions[f"{key}_date_time"])
        for position, turn in enumerate(sessions[key]):
            text = f"{turn['text']} {turn.get('blip_caption') or ''}".strip()
            id_ = turn["dia_id"]
            passages[id_] = Passage(id_, text, turn["speaker"], f"D{found[1]}", position, "turn", time=time)
    questions = []
    for each in content["qa"]:
        evidence = {
            f"D{session}:{turn}" for text in each.get("evidence") or () for session, turn in _EVIDENCE.findall(text)
        }
        turns = frozenset(evidence & passages.keys())
        if turns:
            questions.append(LocomoQuestion(each["question"], each["category"], turns))
    return LocomoConversation(passages, questions)


def _time(text: str) -> float:
    """Return the time of a text such as ``1:56 pm on 8 May, 2023``, in UTC."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp()
