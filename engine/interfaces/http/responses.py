"""HTTP responses: JSON that every client can parse, and errors as problem details (RFC 9457)."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from engine.contract.result import ToolResult


class HttpProblem(Exception):
    """A request that cannot be served. It may be raised anywhere while a request is handled, and becomes the response.

    Args:
        status: The HTTP status.
        detail: What went wrong and what to do about it.
        headers: Headers to add to the response.
    """

    def __init__(self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Return the error as a problem details document."""
        body = {"type": "about:blank", "title": self.status.phrase, "status": self.status, "detail": self.detail}
        return AsciiJsonResponse(body, self.status, self.headers, media_type="application/problem+json")


class AsciiJsonResponse(Response):
    """A response of ASCII JSON on one line. It can contain any text, such as lone surrogates and line separators."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content).encode("ascii")


def to_json(value: Any) -> str:
    """Serialize a value to JSON on one line. This never raises.

    A value without a JSON form is converted to a string. NaN and infinities become null.
    """
    try:
        return json.dumps(value, allow_nan=False, default=str)
    except (ValueError, TypeError):  # NaN or an infinity, a circular reference, a key that is not a string
        return json.dumps(_jsonable(value, 0), default=str)


_MAX_DEPTH = 100


def _jsonable(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): _jsonable(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each, depth + 1) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def result_to_json(call_id: str, result: ToolResult) -> dict[str, Any]:
    """Return the whole result as JSON fields.

    Args:
        call_id: The client's id for the call.
        result: The result of the call.
    """
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


_INPUT_ERRORS = {"unknown_tool": HTTPStatus.NOT_FOUND, "invalid_arguments": HTTPStatus.UNPROCESSABLE_ENTITY}


def input_problem(call_id: str, result: ToolResult) -> Response | None:
    """Return the error response of a call that did not run because its tool is unknown or its arguments are invalid.

    Return None for any other result. The problem also has all members of the result, as extension members of RFC 9457.
    """
    failure = result.failure
    if failure is None or failure.may_have_started or failure.reason not in _INPUT_ERRORS:
        return None
    status = _INPUT_ERRORS[failure.reason]
    problem = {"type": "about:blank", "title": status.phrase, "status": status, "detail": result.text}
    return AsciiJsonResponse(
        {**result_to_json(call_id, result), **problem}, status, media_type="application/problem+json"
    )
