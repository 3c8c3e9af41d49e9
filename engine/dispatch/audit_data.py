"""`bounded`: limits what a tool adds to the audit of its call to a small JSON object (CALL-5)."""

import math
from collections.abc import Mapping
from typing import Any

MOST_VALUES = 200  # values in the data of one call, including nested ones
MOST_CHARACTERS = 4_000  # characters in all texts and keys of one call together
MOST_DEPTH = 6
TRUNCATED = "truncated"  # the key that marks an incomplete object


def bounded(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy that contains only JSON values. If any are dropped because of a limit, ``"truncated"`` is true.

    The time that the copying may take is limited as well. The function never raises.
    """
    copier = _Copier()
    copied: Any = {}
    try:
        copied = copier.copy(dict(data), MOST_DEPTH)
    except Exception:  # noqa: BLE001 - an abandoned thread may still change `data`; its values may be of any class
        copier.truncated = True
    return {**copied, TRUNCATED: True} if copier.truncated else copied


class _Copier:
    def __init__(self) -> None:
        self._values = MOST_VALUES
        self._characters = MOST_CHARACTERS
        self.truncated = False

    def copy(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict | list | tuple):
            return self._nested(value, depth)
        if value is None or isinstance(value, bool) or _plain_number(value):
            return value
        return self._text(value if isinstance(value, str) else repr(value)[:MOST_CHARACTERS])

    def _nested(self, value: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> Any:
        if not depth:
            self.truncated = True
            return None
        if isinstance(value, dict):
            return {self._text(str(key)): self.copy(each, depth - 1) for key, each in self._some(value.items())}
        return [self.copy(each, depth - 1) for each in self._some(value)]

    def _some(self, items: Any) -> Any:
        for each in items:
            if self._values <= 0 or self._characters <= 0:
                self.truncated = True
                return
            self._values -= 1
            yield each

    def _text(self, text: str) -> str:
        kept = text[: self._characters].encode("utf-8", "replace").decode()
        self._characters -= len(kept)
        self.truncated = self.truncated or len(kept) < len(text)
        return kept


def _plain_number(value: Any) -> bool:
    """Return whether the number is finite and fits in 64 bits, so that every JSON reader accepts it."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and value.bit_length() <= 64  # noqa: PLR2004 - see above
