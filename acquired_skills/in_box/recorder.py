"""In the box: records the calls that a new skill's tests make, for replay by the skill itself and by others (SKILL-7,
SKILL-8).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_data import call_as_data, call_key, value_as_answer
from acquired_skills.in_box.packing import packed_exception
from acquired_skills.in_box.skill_arguments import to_json

MOST_CALLS = 200  # distinct
MOST_CHARS = 8_192  # of one call's arguments, and of its value, as JSON
MOST_IN_ALL = 65_536
MOST_ASKED = 2_000  # calls of all tests together, to replay in another box
MOST_ASKED_CHARS = 1 << 20


class Recorder:
    """Records calls.

    Calls whose arguments and value are plain JSON are kept for other skills, except arguments that returned different
    values. Calls that can be packed are kept per test.

    Attributes:
        missed: how many calls were not kept for other skills.
        test: id of the running test.
    """

    def __init__(self, module: str, folder: Path) -> None:
        """module: whose classes are packed with a call. folder: whose files are."""
        self.missed = 0
        self.test = ""
        self._module = module
        self._folder = folder
        self._asked: dict[tuple[str, str], dict[str, Any]] = {}  # by test and key
        self._asked_chars = 0
        self._kept: dict[str, dict[str, str] | None] = {}  # by arguments
        self._chars = 0

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call the function, and record its arguments and its value or exception."""
        __tracebackhide__ = True
        sent = _exact([list(arguments), named])  # before the call, since it may change its arguments
        asked = call_as_data(arguments, named, self._module, self._folder)
        try:
            value = function(*arguments, **named)
        except Exception as problem:
            self._keep(sent, "raised", json.dumps(type(problem).__name__[:500]))
            self._ask(asked, {"raised": packed_exception(problem, self._module)})
            raise
        self._keep(sent, "value", _as_sent(value))
        self._ask(asked, value_as_answer(value, self._module))
        return value

    def asked(self) -> list[dict[str, Any]]:
        """Return ``test``, ``call`` and ``answer`` of each call, as data; no ``answer`` when it varied."""
        return list(self._asked.values())

    def _ask(self, call: dict[str, Any] | None, answer: dict[str, Any]) -> None:
        if call is None:
            return
        key = call_key(call)
        kept = self._asked.get((self.test, key))
        if kept is not None:
            if kept.get("answer") != answer:
                kept.pop("answer", None)
        elif len(self._asked) < MOST_ASKED and self._asked_chars + len(key) <= MOST_ASKED_CHARS:
            self._asked[self.test, key] = {"test": self.test, "call": call, "answer": answer}
            self._asked_chars += len(key) + len(json.dumps(answer))

    def calls(self) -> list[dict[str, Any]]:
        """Return ``positional``, ``named`` and either ``value`` or ``raised`` (the type's name) of each kept call."""
        found = []
        for sent, came in self._kept.items():
            if came is not None:
                positional, named = json.loads(sent)
                found.append(
                    {"positional": positional, "named": named, **{how: json.loads(text) for how, text in came.items()}}
                )
        return found

    def _keep(self, sent: str | None, how: str, came: str | None) -> None:
        if sent is None or came is None:
            self.missed += 1
        elif sent in self._kept:
            if self._kept[sent] != {how: came}:
                self._kept[sent] = None
                self.missed += 1
        elif len(self._kept) < MOST_CALLS and self._chars + len(sent) + len(came) <= MOST_IN_ALL:
            self._kept[sent] = {how: came}
            self._chars += len(sent) + len(came)
        else:
            self.missed += 1


def _exact(value: Any) -> str | None:
    """Return the value as JSON if JSON restores it exactly (it does not restore a tuple, or a key that is a number)."""
    try:
        text = json.dumps(value, allow_nan=False)
        return text if len(text) <= MOST_CHARS and json.loads(text) == value else None
    except Exception:  # noqa: BLE001 -- an argument's own code may raise anything
        return None


def _as_sent(value: Any) -> str | None:
    """Return the value as JSON, as it leaves the box."""
    try:
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            text = json.dumps(to_json(value), allow_nan=False)
    except Exception:  # noqa: BLE001 -- likewise
        return None
    return text if len(text) <= MOST_CHARS else None
