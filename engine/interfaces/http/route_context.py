"""Code that all routes use: the objects they share, the caller of a request, and the documented error responses."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request

from engine.app.engine import Engine
from engine.interfaces.http.approver import HttpApprover
from engine.interfaces.http.bodies import ProblemDetails
from engine.interfaces.http.running_calls import RunningCalls
from engine.interfaces.http.tokens import Caller


@dataclass(frozen=True, slots=True)
class RouteContext:
    """What the routes of one server share. `module_name` is the engine's name as a module of another engine."""

    engine: Engine
    calls: RunningCalls
    approver: HttpApprover
    module_name: str


def caller_of(request: Request) -> Caller:
    """Return the caller that the edge identified.

    Raises:
        TypeError: The edge has not checked the request, so it must not be answered.
    """
    caller = request.state.caller
    if not isinstance(caller, Caller):
        raise TypeError("The request has no caller: it did not pass the edge.")
    return caller


CurrentCaller = Annotated[Caller, Depends(caller_of)]

_EDGE_STATUSES = (400, 401, 403, 408, 413, 415, 421, 503)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses to document for a route: the responses of the edge, and one for each given status."""
    schema = {"schema": ProblemDetails.model_json_schema()}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {"application/problem+json": schema}}
        for status in (*_EDGE_STATUSES, *statuses)
    }
