"""Routes that call tools, stream the events of a call, cancel calls and list recorded calls."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from engine.contract.events import Awaiting, Missed, OutputPiece, Progress
from engine.dispatch.render import is_large
from engine.interfaces.http.bodies import AuditList, CallAnswer, CallBody
from engine.interfaces.http.edge import DecodedRoute
from engine.interfaces.http.responses import AsciiJsonResponse, HttpProblem, input_problem, result_to_json, to_json
from engine.interfaces.http.route_context import CurrentCaller, RouteContext, problems
from engine.interfaces.http.running_calls import RunningCall, refuse_if_busy
from engine.policy.access import user_rank

KEEP_ALIVE_COMMENT_S = 15.0  # a comment is sent after this time without events, to detect that a client disconnected
_MAX_ROWS = 1_000


def call_routes(context: RouteContext) -> APIRouter:
    """Return the routes that call the engine's tools."""
    routes = APIRouter(prefix="/api", route_class=DecodedRoute)

    @routes.post("/call", response_model=CallAnswer, responses=problems(404, 409, 422, 429))
    async def call(body: CallBody, caller: CurrentCaller, request: Request) -> Response:
        """Call a tool and wait for its complete result. Closing the connection cancels the call. An unknown tool is
        answered with 404 and invalid arguments with 422; in both cases nothing was run."""
        turn = body.turn_of(caller)
        running = context.calls.start(caller, body.name, body.arguments, turn, body.call_id, client=request.client)
        result = await running.result(request)
        if result is None:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # the client has disconnected and does not read this
        refuse_if_busy(result)
        if is_large(result.output):
            return await asyncio.to_thread(AsciiJsonResponse, result_to_json(running.call_id, result))
        return input_problem(running.call_id, result) or AsciiJsonResponse(result_to_json(running.call_id, result))

    @routes.post(
        "/call/stream",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "Server-sent events of the call. The result is the last event.",
                "content": _EVENT_STREAM,
            },
            **problems(409, 422, 429),
        },
    )
    async def stream(body: CallBody, caller: CurrentCaller, request: Request) -> StreamingResponse:
        """Call a tool and stream its events: `call` with the id, `approval` when the call waits for a person,
        `progress`, `output`, `missed` with the number of events that were dropped because the client read too slowly,
        and `result` as the last one. Closing the connection cancels the call."""
        turn = body.turn_of(caller)
        running = context.calls.start(
            caller, body.name, body.arguments, turn, body.call_id, followed=True, client=request.client
        )
        return CallStream(running)

    @routes.delete("/calls/{call_id}", status_code=204, responses=problems(404, 422))
    async def cancel(call_id: Annotated[str, Path(max_length=64)], caller: CurrentCaller) -> Response:
        """Cancel a running call of the caller's user. Its client receives a result whose `end` is `killed`."""
        if not context.calls.cancel(caller, call_id):
            raise HttpProblem(HTTPStatus.NOT_FOUND, "You have no running call with this id.")
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @routes.get("/audit", response_model=AuditList, responses=problems(422))
    async def audit(caller: CurrentCaller, limit: Annotated[int, Query(ge=1, le=_MAX_ROWS)] = 50) -> Response:
        """List the calls of all users, the newest first. Only admins and owners may do this."""
        if user_rank(caller.permission) < user_rank("admin"):
            raise HttpProblem(HTTPStatus.FORBIDDEN, "Reading the audit requires the permission admin.")
        return AsciiJsonResponse({"calls": await context.engine.audit(limit)})

    return routes


EVENT_NAMES: Mapping[type, str] = {Progress: "progress", OutputPiece: "output", Awaiting: "approval", Missed: "missed"}

# The schema describes one event.
_EVENT_STREAM = {
    "text/event-stream": {
        "schema": {
            "type": "object",
            "properties": {
                "event": {"enum": ["call", *EVENT_NAMES.values(), "result"]},
                "data": {"type": "string", "contentMediaType": "application/json"},
            },
            "required": ["event", "data"],
        }
    }
}


class CallStream(StreamingResponse):
    """The server-sent events of one call. A disconnect of the client cancels the call, even before the first event."""

    media_type = "text/event-stream"

    def __init__(self, running: RunningCall) -> None:
        super().__init__(events(running))
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._running.abandon()


async def events(running: RunningCall) -> AsyncIterator[str]:
    """Yield the events of a call as they occur, then its result."""
    yield event("call", {"call_id": running.call_id})
    async for pieces in running.event_batches(KEEP_ALIVE_COMMENT_S):
        yield "".join(event(EVENT_NAMES[type(piece)], asdict(piece)) for piece in pieces) or ": still running\n\n"
    yield await asyncio.to_thread(event, "result", result_to_json(running.call_id, running.finished_result()))


def event(name: str, data: object) -> str:
    """Return one server-sent event. Its data is one line of ASCII, so nothing in it can start another event."""
    return f"event: {name}\ndata: {to_json(data)}\n\n"
