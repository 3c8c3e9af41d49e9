"""The page `/docs`: the OpenAPI document in Swagger UI. It exists only if `docs` is set in [http]."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.util import find_spec

from fastapi import APIRouter
from starlette.responses import Response

from engine.contract.failure import ConfigError

PATHS = frozenset({"/docs", "/docs/start.js", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js", "/openapi.json"})
_PACKAGE = "fastapi_swagger"  # this package contains the files of Swagger UI; its Python code is not used
_TYPES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'"
)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Knackbox</title><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START = 'SwaggerUIBundle({url: "/openapi.json", dom_id: "#swagger-ui", validatorUrl: null});\n'


def docs_routes() -> APIRouter:
    """Return the routes of the page and its files. The page loads nothing from other servers.

    Raises:
        ConfigError: The files of Swagger UI are not installed.
    """
    if find_spec(_PACKAGE) is None:
        raise ConfigError("`docs` of [http] needs Swagger UI. Run pip install 'knackbox[docs]' or remove the setting.")
    resources = files(_PACKAGE) / "resources"
    routes = APIRouter(prefix="/docs", include_in_schema=False)

    @routes.get("")
    async def page() -> Response:
        return Response(_PAGE, media_type="text/html", headers={"Content-Security-Policy": _POLICY})

    @routes.get("/start.js")
    async def start() -> Response:
        return Response(_START, media_type="text/javascript")

    for name, kind in _TYPES.items():
        routes.add_api_route(f"/{name}", _file((resources / name).read_bytes(), kind), methods=["GET"])
    return routes


def _file(data: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return Response(data, media_type=kind)

    return answer
