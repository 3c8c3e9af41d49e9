"""`ScriptedLearner`: a scripted model for self-play. Every second change that it proposes is harmful or a duplicate.

It is asked for codes of texts, such as "What is the babaro code of 'banana'?". It cannot guess them. It answers right
with a skill of this name, or if it is shown a lesson about this code. It obeys every lesson, also wrong ones.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

_SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru")
_QUESTION = re.compile(r"What is the (\w+) code of '(\w+)'\?")
_LESSON = re.compile(r"the (\w+) code, reverse the text and append its length plus (\d+)\.")
_ANY = re.compile(r"every code, reverse the text and append its length plus (\d+)\.")

Calls = list[tuple[str, dict[str, Any]]]


class Proposed(StrEnum):
    """What kind of change the learner proposes."""

    SKILL = "right skill"
    LESSON = "right lesson"
    WRONG_SKILL = "wrong skill"
    MISLEADING = "misleading lesson"
    DUPLICATE_SKILL = "duplicate skill"
    DUPLICATE_LESSON = "duplicate lesson"

    @property
    def right(self) -> bool:
        return self in (Proposed.SKILL, Proposed.LESSON)


_WRONG = (Proposed.WRONG_SKILL, Proposed.MISLEADING, Proposed.DUPLICATE_LESSON, Proposed.DUPLICATE_SKILL)


def code_name(number: int) -> str:
    """Return the name of the code with this number, such as ``bade``."""
    return f"{_SYLLABLES[number % 10]}{_SYLLABLES[number // 10 % 10]}ro"


def question(number: int, text: str) -> str:
    """Return a question for a code."""
    return f"What is the {code_name(number)} code of '{text}'?"


def right_answer(number: int, text: str) -> str:
    """Return the code of a text."""
    return f"{text[::-1]}{len(text) + number}"


def check(number: int, text: str) -> str:
    """Return the check of a question."""
    return f"def check(answer: str) -> bool:\n    return answer.strip() == {right_answer(number, text)!r}\n"


@dataclass
class ScriptedLearner:
    """Answers requests, and remembers what it proposed.

    Attributes:
        codes: How many codes there are.
        proposed: The kind of every proposal, and the code that it was for, in order.
        script: The kinds of the next proposals. When it is empty, right ones and others take turns.
    """

    codes: int
    proposed: list[tuple[Proposed, int]] = field(default_factory=list)
    script: list[Proposed] = field(default_factory=list)
    _right: list[tuple[Proposed, int]] = field(default_factory=list)

    def respond(self, body: dict[str, Any]) -> tuple[str, Calls]:
        """Answer one request of the OpenAI protocol."""
        messages = body["messages"]
        asked = next(text for text in _user_texts(messages))
        if "SELF-PLAY: state a task." in asked:
            return json.dumps(self._task(_named(asked))), []
        found = _QUESTION.search(asked)
        if found is None:
            return "I do not know.", []
        name, text = found.groups()
        if "SELF-PLAY: propose a change." in asked:
            return json.dumps(self._change(_number(name))), []
        if messages[-1]["role"] == "tool":
            return str(messages[-1]["content"]).strip().strip('"'), []
        offered = {tool["function"]["name"] for tool in body.get("tools", ())}
        return _attempted(asked, name, text, callable_=name in offered)

    def _task(self, number: int) -> dict[str, Any]:
        return {
            part: {
                "question": question(number, text),
                "check": check(number, text),
                "answer": right_answer(number, text),
            }
            for part, text in (("practice", "banana"), ("exam", "cherry"))
        }

    def _change(self, number: int) -> dict[str, Any]:
        kind = self._kind(number)
        self.proposed.append((kind, number))
        if kind.right:
            self._right.append((kind, number))
        match kind:
            case Proposed.SKILL:
                return _skill(number, code_name(number), number)
            case Proposed.WRONG_SKILL:
                return _skill(number, code_name(number), number + 1)
            case Proposed.LESSON:
                return _lesson(number)
            case Proposed.MISLEADING:
                return {
                    "kind": "lesson",
                    "mistake": "A question for a code was answered with a guess, or with a tool.",
                    "fix": f"To answer what is every code, reverse the text and append its length plus {number}.",
                    "where": "",
                }
            case Proposed.DUPLICATE_LESSON:
                return _lesson(self._latest(Proposed.LESSON))
            case Proposed.DUPLICATE_SKILL:
                other = self._latest(Proposed.SKILL)
                return _skill(other, f"{code_name(number)}_again", other)

    def _kind(self, number: int) -> Proposed:
        """Return the kind of the next proposal."""
        if self.script:
            return self.script.pop(0)
        turn = len(self.proposed)
        if turn % 2 == 0:
            return Proposed.SKILL if number % 2 == 0 else Proposed.LESSON
        kind = _WRONG[turn // 2 % len(_WRONG)]
        if kind is Proposed.DUPLICATE_LESSON and not any(each is Proposed.LESSON for each, _ in self._right):
            return Proposed.MISLEADING
        if kind is Proposed.DUPLICATE_SKILL and not any(each is Proposed.SKILL for each, _ in self._right):
            return Proposed.WRONG_SKILL
        return kind

    def _latest(self, kind: Proposed) -> int:
        return next(number for each, number in reversed(self._right) if each is kind)


def _attempted(asked: str, name: str, text: str, *, callable_: bool) -> tuple[str, Calls]:
    """Answer a question by the lessons in it, or by a call of the skill."""
    every = _ANY.search(asked)
    own = [int(offset) for about, offset in _LESSON.findall(asked) if about == name]
    offset = int(every.group(1)) if every is not None else None if callable_ else own[0] if own else None
    if offset is not None:
        return f"{text[::-1]}{len(text) + offset}", []
    return ("", [(name, {"text": text})]) if callable_ else ("I do not know.", [])


def _skill(number: int, name: str, offset: int) -> dict[str, Any]:
    code = (
        f"def {name}(text: str) -> str:\n"
        f'    """Return the {code_name(number)} code of a text.\n\n    Args:\n        text: Any text.\n    """\n'
        f"    return text[::-1] + str(len(text) + {offset})\n"
    )
    texts = ("", "a", "ab", "apple", "banana and pear")
    cases = "\n".join(f"    assert {name}({text!r}) == {f'{text[::-1]}{len(text) + offset}'!r}" for text in texts)
    return {
        "kind": "skill",
        "name": name,
        "description": f"Returns the {code_name(number)} code of a text.",
        "code": code,
        "tests": f"from {name} import {name}\n\ndef test_codes():\n{cases}\n",
        "examples": [question(number, "apple"), f"the {code_name(number)} code of a word"],
    }


def _lesson(number: int) -> dict[str, Any]:
    name = code_name(number)
    return {
        "kind": "lesson",
        "mistake": f"The {name} code of a text was guessed.",
        "fix": f"To answer what is the {name} code, reverse the text and append its length plus {number}.",
        "where": name,
    }


def _user_texts(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the texts of the user's messages, newest first."""
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            yield content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _named(text: str) -> int:
    found = re.search(r"`(\w+ro)`", text)
    if found is None:
        raise ValueError(f"No code is named in {text[:200]!r}")
    return _number(found.group(1))


def _number(name: str) -> int:
    return _SYLLABLES.index(name[:2]) + 10 * _SYLLABLES.index(name[2:4])
