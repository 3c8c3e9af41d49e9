"""`CrossOrigin`: CORS for the origins that the operator allows. Pages of all other origins are refused."""

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.interfaces.http.edge import HostNames

_METHODS = ("GET", "POST", "DELETE")
_MCP_HEADERS = ("Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID")
_ALLOWED_HEADERS = ("Authorization", "Content-Type", *_MCP_HEADERS)
_EXPOSED_HEADERS = (
    "Retry-After",
    "Mcp-Session-Id",
)  # response headers that pages may read, besides those that browsers always expose


class CrossOrigin:
    """ASGI middleware around the edge. It answers preflight requests and passes all others to the edge.

    Wildcards and cookies are not supported; a page must send a token in the Authorization header.
    """

    def __init__(self, edge: ASGIApp, *, origins: frozenset[str], names: HostNames) -> None:
        self._edge = edge
        self._origins = origins
        self._names = names
        self._cors = CORSMiddleware(
            edge,
            allow_origins=tuple(origins),
            allow_methods=_METHODS,
            allow_headers=_ALLOWED_HEADERS,
            expose_headers=_EXPOSED_HEADERS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = False
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            hosts, origins = headers.getlist("host"), headers.getlist("origin")
            host_allowed = len(hosts) == 1 and self._names.allows(hosts[0])  # the edge refuses all other hosts
            allowed = host_allowed and len(origins) == 1 and origins[0] in self._origins
        await (self._cors if allowed else self._edge)(scope, receive, send)
