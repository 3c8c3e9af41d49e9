"""Routes that list the calls that wait for approval, and receive the answers (ACCESS-8)."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from engine.interfaces.http.bodies import Approval, ApprovalBody, ApprovalList
from engine.interfaces.http.edge import DecodedRoute
from engine.interfaces.http.responses import AsciiJsonResponse
from engine.interfaces.http.route_context import CurrentCaller, RouteContext, problems
from engine.policy.approval import ApprovalAnswer

Id = Annotated[str, Path(max_length=64)]


def approval_routes(context: RouteContext) -> APIRouter:
    """Return the routes. Only tokens that may approve calls can use them."""
    routes = APIRouter(prefix="/api/approvals", route_class=DecodedRoute)
    approver = context.approver

    @routes.get("", response_model=ApprovalList, responses=problems())
    async def waiting(caller: CurrentCaller) -> Response:
        """List the waiting calls that this caller may approve or reject: the calls made with the user's other tokens,
        and for admins and owners the calls of all users."""
        return AsciiJsonResponse({"approvals": [each.brief() for each in approver.pending(caller)]})

    @routes.get("/{approval_id}", response_model=Approval, responses=problems(404, 409, 422))
    async def one(approval_id: Id, caller: CurrentCaller) -> Response:
        """Return one waiting call with all of its arguments."""
        return AsciiJsonResponse(approver.find(caller, approval_id).full())

    @routes.post("/{approval_id}", status_code=204, responses=problems(404, 409, 422))
    async def answer(approval_id: Id, body: ApprovalBody, caller: CurrentCaller) -> Response:
        """Approve or reject a waiting call. Only the first answer counts. The digest must match the waiting call."""
        await approver.answer(caller, approval_id, ApprovalAnswer(body.approved, body.digest, body.reason, caller.name))
        return Response(status_code=204)

    return routes
