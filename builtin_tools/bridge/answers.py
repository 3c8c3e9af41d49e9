"""What is sent over a bridge into a box: values, failures, and handles of results too large to be sent at once."""

import json
import secrets
from collections.abc import Mapping
from typing import Any

from engine.contract.failure import Failure, FailureClass
from engine.contract.result import ToolResult

_INLINE = 1 << 20  # characters of a value that is sent at once
_START = 500
_HELD = 64 << 20  # characters of large results that one program may have read from
UNSURE = "may_have_happened"  # the reason of the failure of a call whose effect is unknown
_UNPLAIN = "The result is not JSON."


class LargeResults:
    """The results of one program that are too large to be sent at once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._held = 0

    def keep(self, text: str) -> dict[str, Any] | None:
        """Keep a result and return what the program gets instead; None if there are too many already."""
        if self._held + len(text) > _HELD:
            return None
        handle = secrets.token_hex(8)
        self._texts[handle] = text
        self._held += len(text)
        return {"handle": handle, "characters": len(text), "start": text[:_START]}

    def part(self, handle: str, offset: int, characters: int) -> str | None:
        """Return a part of a result; None if there is no such handle."""
        text = self._texts.get(handle)
        return None if text is None else text[offset : offset + characters]


def answer_value(value: Any, large: LargeResults) -> dict[str, Any]:
    """Return the fields of an answer that has a value."""
    if isinstance(value, str):
        if len(value) <= _INLINE:
            return {"value": value}
        text = value
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return failed("invalid_result", _UNPLAIN, may_have_happened=True)
        if len(text) <= _INLINE:
            return {"value": value}
    kept = large.keep(text)
    if kept is None:
        return failed("too_large", "The results of this program are too large together. Ask for less at once.")
    return {"large": kept}


def plain_answer(result: ToolResult) -> dict[str, Any]:
    """Return the fields of the answer for the result of a call: its value or its message, or its failure.

    The value may be too large to be sent: `fitting` sees to that.
    """
    if result.success:
        return {"value": result.message if result.output is None else result.output}
    failure = result.failure or Failure(FailureClass.UNKNOWN, "failed")
    given = failed(
        failure.reason,
        result.text,
        failure_class=failure.failure_class,
        may_have_happened=failure.reason == UNSURE or (failure.may_have_started and not failure.replay_safe),
    )
    if result.output is not None:
        given["failed"]["output"] = result.output
    if failure.alternatives:
        given["failed"]["alternatives"] = [
            {"tool": each.tool, "arguments": dict(each.arguments), "note": each.note} for each in failure.alternatives
        ]
    return given


def fitting(fields: Mapping[str, Any], large: LargeResults) -> Mapping[str, Any]:
    """Return the fields of an answer, with a handle in place of a value that is too large to be sent at once."""
    if "value" in fields:
        return answer_value(fields["value"], large)
    failure = fields.get("failed", {})
    for part in ("output", "alternatives"):
        if failure.get(part) is not None and "value" not in answer_value(failure[part], large):
            failure = {**failure, part: None}
    return {**fields, "failed": failure} if failure else fields


def failed(
    reason: str,
    message: str,
    *,
    failure_class: FailureClass = FailureClass.DIAGNOSTIC,
    may_have_happened: bool = False,
) -> dict[str, Any]:
    """Return the fields of the answer for a request that failed."""
    return {
        "failed": {
            "class": failure_class.value,
            "reason": reason,
            "message": message,
            "may_have_happened": may_have_happened,
        }
    }


def encode(number: int | None, fields: Mapping[str, Any]) -> bytes:
    """Return the bytes of an answer. `number` is that of the request."""
    return json.dumps({"id": number, **fields}, ensure_ascii=False).encode("utf-8", "replace")
