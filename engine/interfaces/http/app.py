"""`build_app`: the routes over an open engine, behind the edge, with one form of error."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from engine.interfaces.http.answers import HttpProblem, Json
from engine.interfaces.http.approvals import approval_routes
from engine.interfaces.http.bodies import Health
from engine.interfaces.http.calling import call_routes
from engine.interfaces.http.docs_page import PATHS, docs_routes
from engine.interfaces.http.document import DESCRIPTION, SERVERS, TAGS, TOKEN, complete
from engine.interfaces.http.edge import OPEN_PATHS, BodyLimits, Edge, Names
from engine.interfaces.http.listing import tool_routes
from engine.interfaces.http.module import module_routes
from engine.interfaces.http.origins import CrossOrigin
from engine.interfaces.http.served import Served
from engine.interfaces.http.tokens import Caller
from engine.interfaces.mcp.server import own_version

_log = logging.getLogger("knackbox.http")
_MOST_SAID = 5  # mistakes of one request


@dataclass(frozen=True, slots=True)
class Pages:
    """What pages in a browser may do. origins: those whose pages may use the server. docs: show the document there."""

    origins: frozenset[str] = frozenset()
    docs: bool = False


def build_app(
    served: Served, find: Callable[[str], Caller | None], names: Names, body: BodyLimits, pages: Pages | None = None
) -> ASGIApp:
    """The application. The OpenAPI document is at /openapi.json, with a token unless the docs are on.

    find: whose a token is. pages: nothing is allowed to pages without it. Raises ConfigError.
    """
    pages = pages or Pages()
    app = FastAPI(
        title="Knackbox",
        version=own_version(),
        summary="Tools of a sandboxed execution engine.",
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_tags=TAGS,
        servers=SERVERS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.include_router(health_route(), tags=["server"])
    parts = {
        "modules": module_routes(served),
        "tools": tool_routes(served),
        "calls": call_routes(served),
        "approvals": approval_routes(served),
    }
    for tag, routes in parts.items():
        app.include_router(routes, tags=[tag], dependencies=[TOKEN])
    complete(app)
    if pages.docs:
        app.include_router(docs_routes())
    app.add_exception_handler(HttpProblem, _problem)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(Exception, _fault)
    open_paths = OPEN_PATHS | PATHS if pages.docs else OPEN_PATHS
    edge = Edge(
        app, find=find, names=names, body=body, origins=pages.origins, open_paths=open_paths, own_pages=pages.docs
    )
    return CrossOrigin(edge, origins=pages.origins, names=names) if pages.origins else edge


def health_route() -> APIRouter:
    """The one route that needs no token."""
    routes = APIRouter()

    @routes.get("/health", response_model=Health)
    async def health() -> Response:
        """Whether it runs."""
        return Json({"status": "ok", "version": own_version()})

    return routes


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpProblem)  # noqa: S101 -- registered for it
    return error.answer()


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    status = HTTPStatus(error.status_code)
    detail = {
        HTTPStatus.NOT_FOUND: "There is nothing at this path; /openapi.json tells what there is.",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.method} cannot be used at this path.",
    }.get(status, str(error.detail))
    return HttpProblem(status, detail, error.headers).answer()


async def _not_valid(_: Request, error: Exception) -> Response:
    """Where and what, without what was given."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = error.errors()
    said = [f"{'.'.join(str(step) for step in each['loc'])}: {each['msg']}" for each in found[:_MOST_SAID]]
    more = f" ({len(found) - _MOST_SAID} more)" if len(found) > _MOST_SAID else ""
    return HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(said)[:2_000] + more).answer()


async def _fault(_: Request, error: Exception) -> Response:
    _log.error("The HTTP interface failed on a request.", exc_info=error)
    text = "The server itself failed on this request; its log says how. Whether the call ran is in the audit."
    return HttpProblem(HTTPStatus.INTERNAL_SERVER_ERROR, text).answer()
