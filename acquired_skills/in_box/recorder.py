"""Records the calls that a new skill's tests make, to replay them on this skill and on others (SKILL-7, SKILL-8).

This module runs in the box.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_data import CallEffects, call_as_data, call_key
from acquired_skills.in_box.fixed_clock import FixedClock
from acquired_skills.in_box.json_values import to_json
from acquired_skills.in_box.packing import packed_exception
from acquired_skills.in_box.recorded_tools import RecordedTools

MOST_CALLS = 200  # maximum number of distinct calls that are kept
MOST_CHARS = 8_192  # maximum number of characters of one call's arguments as JSON, and of its value
MOST_IN_ALL = 65_536
MOST_REPLAY_CALLS = 2_000  # maximum number of calls of all tests that are kept for replay in another box
MOST_REPLAY_CHARS = 1 << 20


class Recorder:
    """Records the calls that the tests make.

    Calls whose arguments and value are plain JSON are kept for replay on other skills, unless the same arguments gave
    different values. Besides, all calls that can be packed are kept, each with the test that made it, for replay on
    the new skill itself.

    Attributes:
        unrecorded: The number of calls that were not kept for replay on other skills.
        test: Id of the running test.
    """

    def __init__(self, module: str, folder: Path, clock: FixedClock, tools: RecordedTools | None = None) -> None:
        """Create a recorder without any calls.

        Args:
            module: The module whose classes are packed with a call.
            folder: The folder whose files are packed with a call.
            clock: The clock whose time, if it is fixed, is kept with a call.
            tools: The tools that the skill declares. Their answers are kept with a call.
        """
        self.unrecorded = 0
        self.test = ""
        self._module = module
        self._folder = folder
        self._clock = clock
        self._tools = tools
        self._replay_calls: dict[tuple[str, str], dict[str, Any]] = {}  # by test and call key
        self._replay_chars = 0
        self._kept: dict[str, dict[str, str] | None] = {}  # by arguments
        self._chars = 0

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call the function, and record its arguments and its value or exception."""
        __tracebackhide__ = True
        sent = _exact([list(arguments), named])  # packed before the call, because the call may change its arguments
        call, objects = call_as_data(arguments, named, self._module, self._folder)
        if self._clock.text:
            sent = None  # not replayed on other skills, which use the real time
            if call is not None:
                call["clock"] = self._clock.text
        if self._tools is not None:
            sent, rules = None, self._tools.begin()  # other skills have other tools
            if call is not None:
                call["tools"] = rules
        try:
            value = function(*arguments, **named)
        except Exception as problem:
            self._keep(sent, "raised", json.dumps(type(problem).__name__[:500]))
            self._keep_for_replay(call, {"raised": packed_exception(problem, self._module)})
            raise
        self._keep(sent, "value", self._as_sent(value))
        if call is not None:
            try:
                answer = CallEffects(call, objects, arguments, named, self._module).value_as_answer(value)
            except Exception:  # noqa: BLE001 -- an argument's own code may raise anything
                answer = {"lost": "the changes to the arguments cannot be packed"}
            self._keep_for_replay(call, answer)
        return value

    def replay_calls(self) -> list[dict[str, Any]]:
        """Return each call with its ``test``, ``call`` and ``answer`` as data. An answer that varied is left out."""
        return list(self._replay_calls.values())

    def _keep_for_replay(self, call: dict[str, Any] | None, answer: dict[str, Any]) -> None:
        if call is None:
            return
        if self._tools is not None and self._tools.made:
            answer = {**answer, "called": copy.deepcopy(self._tools.made)}
        key = call_key(call)
        kept = self._replay_calls.get((self.test, key))
        if kept is not None:
            if kept.get("answer") != answer:
                kept.pop("answer", None)
        elif len(self._replay_calls) < MOST_REPLAY_CALLS and self._replay_chars + len(key) <= MOST_REPLAY_CHARS:
            self._replay_calls[self.test, key] = {"test": self.test, "call": call, "answer": answer}
            self._replay_chars += len(key) + len(json.dumps(answer))

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls to replay on other skills.

        Each has ``positional``, ``named``, and either ``value`` or ``raised`` (the name of the exception's type).
        """
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
            self.unrecorded += 1
        elif sent in self._kept:
            if self._kept[sent] != {how: came}:
                self._kept[sent] = None
                self.unrecorded += 1
        elif len(self._kept) < MOST_CALLS and self._chars + len(sent) + len(came) <= MOST_IN_ALL:
            self._kept[sent] = {how: came}
            self._chars += len(sent) + len(came)
        elif len(self._kept) < MOST_CALLS:  # the kept calls are too long, so they may be few
            self.unrecorded += 1

    def _as_sent(self, value: Any) -> str | None:
        """Return the JSON text of a value in the form in which it would leave the box."""
        try:
            try:
                text = _dumped(value)
            except (TypeError, ValueError):
                text = _dumped(to_json(value, self._module))
        except Exception:  # noqa: BLE001 -- likewise
            return None
        return text if len(text) <= MOST_CHARS else None


def _exact(value: Any) -> str | None:
    """Return a value as JSON; None if a JSON round trip would change it, as it changes tuples and numeric keys."""
    try:
        text = _dumped(value)
        return text if len(text) <= MOST_CHARS and json.loads(text) == value else None
    except Exception:  # noqa: BLE001 -- an argument's own code may raise anything
        return None


def _dumped(value: Any) -> str:
    """Return a value as JSON text.

    Raises:
        ValueError: It contains NaN, an infinite number or half of a surrogate pair. JSON would merge two halves.
        TypeError: JSON cannot represent it.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()
    return text
