"""Routes of calls: one call with its answer, or with its news as they come; cancelling; who called what."""

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
from engine.dispatch.large import is_large
from engine.interfaces.http.answers import HttpProblem, Json, result_to_json, to_json, wrong_input
from engine.interfaces.http.bodies import AuditList, CallAnswer, CallBody
from engine.interfaces.http.calls import Running, refuse_if_busy
from engine.interfaces.http.edge import ReadRoute
from engine.interfaces.http.served import Served, Who, problems
from engine.policy.access import user_rank

QUIET_S = 15.0  # then a comment is sent, so that a client that is gone is noticed
_MOST_ROWS = 1_000


def call_routes(served: Served) -> APIRouter:
    """Calls of the engine's tools."""
    routes = APIRouter(prefix="/api", route_class=ReadRoute)

    @routes.post("/call", response_model=CallAnswer, responses=problems(404, 409, 422, 429))
    async def call(body: CallBody, who: Who, request: Request) -> Response:
        """Call a tool, and wait for all of its result. Closing the connection cancels the call. A name that is no
        tool's is answered with 404, and arguments that do not fit with 422; then nothing was run."""
        turn = body.turn_of(who)
        running = served.calls.start(who, body.name, body.arguments, turn, body.call_id, client=request.client)
        result = await running.result(request)
        if result is None:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody is there to read it
        refuse_if_busy(result)
        if is_large(result.output):
            return await asyncio.to_thread(Json, result_to_json(running.call_id, result))
        return wrong_input(running.call_id, result) or Json(result_to_json(running.call_id, result))

    @routes.post(
        "/call/stream",
        response_class=StreamingResponse,
        responses={
            200: {"description": "Server-sent events of the call, its result the last", "content": _EVENT_STREAM},
            **problems(409, 422, 429),
        },
    )
    async def stream(body: CallBody, who: Who, request: Request) -> StreamingResponse:
        """Call a tool, and hear of it while it runs: `call` with the id, `approval` when it waits for a person,
        `progress`, `output`, `missed` where too much came to be taken, and `result`, the last. Closing the connection
        cancels the call."""
        turn = body.turn_of(who)
        running = served.calls.start(
            who, body.name, body.arguments, turn, body.call_id, followed=True, client=request.client
        )
        return CallStream(running)

    @routes.delete("/calls/{call_id}", status_code=204, responses=problems(404, 422))
    async def cancel(call_id: Annotated[str, Path(max_length=64)], who: Who) -> Response:
        """Cancel a running call of one's own user. Whoever waits for it gets its result, whose end is `killed`."""
        if not served.calls.cancel(who, call_id):
            raise HttpProblem(HTTPStatus.NOT_FOUND, "No call of yours with this id runs.")
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @routes.get("/audit", response_model=AuditList, responses=problems(422))
    async def audit(who: Who, limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = 50) -> Response:
        """The calls of all users, the newest first; for admins and owners."""
        if user_rank(who.permission) < user_rank("admin"):
            raise HttpProblem(HTTPStatus.FORBIDDEN, "The audit takes the permission admin.")
        return Json({"calls": await served.engine.audit(limit)})

    return routes


NAMES: Mapping[type, str] = {Progress: "progress", OutputPiece: "output", Awaiting: "approval", Missed: "missed"}

# The schema is that of one event.
_EVENT_STREAM = {
    "text/event-stream": {
        "schema": {
            "type": "object",
            "properties": {
                "event": {"enum": ["call", *NAMES.values(), "result"]},
                "data": {"type": "string", "contentMediaType": "application/json"},
            },
            "required": ["event", "data"],
        }
    }
}


class CallStream(StreamingResponse):
    """Server-sent events of one call; when nobody takes them any more, even before the first, it is cancelled."""

    media_type = "text/event-stream"

    def __init__(self, running: Running) -> None:
        super().__init__(events(running))
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._running.abandon()


async def events(running: Running) -> AsyncIterator[str]:
    """What a call tells, as it comes, and its result."""
    yield event("call", {"call_id": running.call_id})
    async for pieces in running.event_batches(QUIET_S):
        yield "".join(event(NAMES[type(piece)], asdict(piece)) for piece in pieces) or ": still running\n\n"
    yield await asyncio.to_thread(event, "result", result_to_json(running.call_id, running.taken()))


def event(name: str, data: object) -> str:
    """One event. The data is one line of ASCII, so that nothing in it can begin another."""
    return f"event: {name}\ndata: {to_json(data)}\n\n"
