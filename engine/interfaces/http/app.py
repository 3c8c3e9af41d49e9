"""`build_app`: creates the ASGI application, with the routes of an open engine, protected by `Edge`."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from engine.interfaces.http.approval_routes import approval_routes
from engine.interfaces.http.bodies import Health
from engine.interfaces.http.call_routes import call_routes
from engine.interfaces.http.docs_page import PATHS, docs_routes
from engine.interfaces.http.edge import OPEN_PATHS, BodyLimits, Edge, HostNames
from engine.interfaces.http.mcp_endpoint import with_mcp
from engine.interfaces.http.module_routes import module_routes
from engine.interfaces.http.openapi import DESCRIPTION, SERVERS, TAGS, TOKEN, complete_document
from engine.interfaces.http.origins import CrossOrigin
from engine.interfaces.http.responses import AsciiJsonResponse, HttpProblem
from engine.interfaces.http.route_context import RouteContext
from engine.interfaces.http.tokens import Caller
from engine.interfaces.http.tool_routes import tool_routes
from engine.interfaces.mcp.server import own_version

_log = logging.getLogger("knackbox.http")
_MAX_ERRORS = 5  # validation errors listed in one response


@dataclass(frozen=True, slots=True)
class Pages:
    """The settings for access by web pages.

    Attributes:
        origins: Origins whose pages may use the server.
        docs: Whether the server shows the OpenAPI document at `/docs`.
    """

    origins: frozenset[str] = frozenset()
    docs: bool = False


def build_app(
    context: RouteContext,
    find: Callable[[str], Awaitable[Caller | None]],
    names: HostNames,
    body: BodyLimits,
    pages: Pages | None = None,
    *,
    mcp: ASGIApp | None = None,
    api: bool = True,
) -> ASGIApp:
    """Return the application. Its OpenAPI document is at /openapi.json and needs a token unless `pages.docs` is set.

    Args:
        context: What the routes share, such as the engine.
        find: Function that returns the caller of a token, or None for an invalid token.
        names: The accepted values of the Host header.
        body: Limits of a request body.
        pages: The settings for access by web pages. By default, no page has access.
        mcp: The endpoint for MCP; None if there is none.
        api: Whether the application has its own routes besides /health. Without them, only MCP clients can use it.

    Raises:
        ConfigError: `pages.docs` is set, but Swagger UI is not installed.
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
        "modules": module_routes,
        "tools": tool_routes,
        "calls": call_routes,
        "approvals": approval_routes,
    }
    for tag, routes in parts.items() if api else ():
        app.include_router(routes(context), tags=[tag], dependencies=[TOKEN])
    complete_document(app)
    if pages.docs:
        app.include_router(docs_routes())
    app.add_exception_handler(HttpProblem, _problem)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(Exception, _server_error)
    open_paths = OPEN_PATHS | PATHS if pages.docs else OPEN_PATHS
    edge = Edge(
        app if mcp is None else with_mcp(app, mcp),
        find=find,
        names=names,
        body=body,
        origins=pages.origins,
        open_paths=open_paths,
        own_pages=pages.docs,
    )
    return CrossOrigin(edge, origins=pages.origins, names=names) if pages.origins else edge


def health_route() -> APIRouter:
    """Return the route that reports the state of the server, the only route that needs no token."""
    routes = APIRouter()

    @routes.get("/health", response_model=Health)
    async def health() -> Response:
        """Report that the server is running, and its version."""
        return AsciiJsonResponse({"status": "ok", "version": own_version()})

    return routes


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpProblem)  # noqa: S101 -- the handler is registered for this class
    return error.response()


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    status = HTTPStatus(error.status_code)
    detail = {
        HTTPStatus.NOT_FOUND: "There is nothing at this path. /openapi.json lists all paths.",
        HTTPStatus.METHOD_NOT_ALLOWED: f"This path does not support {request.method}. /openapi.json lists its methods.",
    }.get(status, str(error.detail))
    return HttpProblem(status, detail, error.headers).response()


async def _validation_error(_: Request, error: Exception) -> Response:
    """List where the input is invalid and why, without repeating the input."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    errors = error.errors()
    lines = [f"{'.'.join(str(step) for step in each['loc'])}: {each['msg']}" for each in errors[:_MAX_ERRORS]]
    more = f" ({len(errors) - _MAX_ERRORS} more)" if len(errors) > _MAX_ERRORS else ""
    return HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(lines)[:2_000] + more).response()


async def _server_error(_: Request, error: Exception) -> Response:
    _log.error("The HTTP interface failed on a request.", exc_info=error)
    text = "The server failed on this request; see its log. The audit shows whether the call ran."
    return HttpProblem(HTTPStatus.INTERNAL_SERVER_ERROR, text).response()
