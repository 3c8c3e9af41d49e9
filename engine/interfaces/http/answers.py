"""What goes back over HTTP: JSON that every client can read, and errors as problem details (RFC 9457)."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from engine.contract.result import ToolResult


class HttpProblem(Exception):
    """Raised where a request cannot be served; it becomes the answer. detail: one sentence with the remedy."""

    def __init__(self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})

    def answer(self) -> Response:
        body = {"type": "about:blank", "title": self.status.phrase, "status": self.status, "detail": self.detail}
        return Json(body, self.status, self.headers, media_type="application/problem+json")


class Json(Response):
    """JSON in ASCII, on one line: a lone surrogate or a line separator in a tool's output harms nobody."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content).encode("ascii")


def to_json(value: Any) -> str:
    """One line. What JSON has no form for becomes text, and a number that is none becomes null."""
    try:
        return json.dumps(value, allow_nan=False, default=str)
    except (ValueError, TypeError):  # NaN or an infinity, a circle, a key that is no text
        return json.dumps(_plain(value, 0), default=str)


_DEEPEST = 100


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def result_to_json(call_id: str, result: ToolResult) -> dict[str, Any]:
    """The whole result, with the id its call has for the client."""
    failure = result.failure
    return {
        "call_id": call_id,
        "success": result.success,
        "output": result.output,
        "message": result.message,
        "error": result.error,
        "failure": None if failure is None else asdict(failure),
        "side_effects": list(result.side_effects),
        "audit": asdict(result.audit),
    }


_WRONG_INPUT = {"unknown_tool": HTTPStatus.NOT_FOUND, "invalid_arguments": HTTPStatus.UNPROCESSABLE_ENTITY}


def wrong_input(call_id: str, result: ToolResult) -> Response | None:
    """The problem with a call that named no tool, or arguments that do not fit; None for any other result.

    Nothing was run. The members of the result are those of the problem, too (RFC 9457 lets problems have more).
    """
    failure = result.failure
    if failure is None or failure.may_have_started or failure.reason not in _WRONG_INPUT:
        return None
    status = _WRONG_INPUT[failure.reason]
    problem = {"type": "about:blank", "title": status.phrase, "status": status, "detail": result.text}
    return Json({**result_to_json(call_id, result), **problem}, status, media_type="application/problem+json")
