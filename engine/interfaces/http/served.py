"""`Served`: what the routes share, and what they say of themselves in the OpenAPI document."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request

from engine.app.engine import Engine
from engine.interfaces.http.approve import HttpApprover
from engine.interfaces.http.bodies import ProblemDetails
from engine.interfaces.http.calls import RunningCalls
from engine.interfaces.http.tokens import Caller


@dataclass(frozen=True, slots=True)
class Served:
    """The parts of one server. module_name: of its engine, as a module of another."""

    engine: Engine
    calls: RunningCalls
    approver: HttpApprover
    module_name: str


def caller_of(request: Request) -> Caller:
    """Who asks, as the edge found out. A route without an edge before it fails here, and serves nobody."""
    caller = request.state.caller
    if not isinstance(caller, Caller):
        raise TypeError("The edge has not said who asks.")
    return caller


Who = Annotated[Caller, Depends(caller_of)]

_EDGE = (400, 401, 403, 408, 413, 415, 421, 503)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Answers of a route besides its own: those of the edge, and these."""
    schema = {"schema": ProblemDetails.model_json_schema()}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {"application/problem+json": schema}}
        for status in (*_EDGE, *statuses)
    }
