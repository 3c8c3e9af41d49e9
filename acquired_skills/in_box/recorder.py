"""In the box: the calls that a new skill's tests make of it, so that others can be asked the same (SKILL-8)."""

import json
from collections.abc import Callable
from typing import Any

from acquired_skills.in_box.skill_arguments import to_json

MOST_CALLS = 200  # different ones
MOST_CHARS = 8_192  # of one call's arguments, and of its value, as JSON
MOST_IN_ALL = 65_536


class Recorder:
    """Calls whose arguments and value JSON can hold. Arguments that gave different values are not kept.

    missed: how many calls were not kept.
    """

    def __init__(self) -> None:
        self.missed = 0
        self._kept: dict[str, dict[str, str] | None] = {}  # by what went in
        self._chars = 0

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call it, and keep what went in and what came out, an exception included."""
        __tracebackhide__ = True
        sent = _exact([list(arguments), named])  # before the call, which may change its arguments
        try:
            value = function(*arguments, **named)
        except Exception as problem:
            self._keep(sent, "raised", json.dumps(type(problem).__name__[:500]))
            raise
        self._keep(sent, "value", _as_sent(value))
        return value

    def calls(self) -> list[dict[str, Any]]:
        """``positional``, ``named`` and either ``value`` or ``raised`` (the type's name) of each that was kept."""
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
    """As JSON, when it comes back from there as it was (a tuple, or a key that is a number, does not)."""
    try:
        text = json.dumps(value, allow_nan=False)
        return text if len(text) <= MOST_CHARS and json.loads(text) == value else None
    except Exception:  # noqa: BLE001 -- what a test passes may do anything
        return None


def _as_sent(value: Any) -> str | None:
    """As JSON, the way it leaves the box."""
    try:
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            text = json.dumps(to_json(value), allow_nan=False)
    except Exception:  # noqa: BLE001 -- likewise
        return None
    return text if len(text) <= MOST_CHARS else None
