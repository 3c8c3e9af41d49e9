"""Routes of approvals: what waits for a person, and the answer (ACCESS-8)."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from engine.interfaces.http.answers import Json
from engine.interfaces.http.bodies import Approval, ApprovalBody, ApprovalList
from engine.interfaces.http.edge import ReadRoute
from engine.interfaces.http.served import Served, Who, problems
from engine.policy.approval import ApprovalAnswer

Id = Annotated[str, Path(max_length=64)]


def approval_routes(served: Served) -> APIRouter:
    """For tokens that approve."""
    routes = APIRouter(prefix="/api/approvals", route_class=ReadRoute)
    approver = served.approver

    @routes.get("", response_model=ApprovalList, responses=problems())
    async def waiting(caller: Who) -> Response:
        """The calls that wait for an answer this caller may give: those of the user's other tokens; for admins and
        owners those of all."""
        return Json({"approvals": [each.brief() for each in approver.waiting(caller)]})

    @routes.get("/{approval_id}", response_model=Approval, responses=problems(404, 409, 422))
    async def one(approval_id: Id, caller: Who) -> Response:
        """One of them, with all of its arguments."""
        return Json(approver.find(caller, approval_id).whole())

    @routes.post("/{approval_id}", status_code=204, responses=problems(404, 409, 422))
    async def answer(approval_id: Id, body: ApprovalBody, caller: Who) -> Response:
        """Say yes or no, once, to exactly what was read."""
        await approver.answer(caller, approval_id, ApprovalAnswer(body.approved, body.digest, body.reason, caller.name))
        return Response(status_code=204)

    return routes
