"""`CrossOrigin`: answers to pages of the origins that the operator allows (CORS). Pages of all others are refused."""

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.interfaces.http.edge import Names

_METHODS = ("GET", "POST", "DELETE")
_SENT = ("Authorization", "Content-Type")
_SEEN = ("Retry-After",)  # what a page may read of an answer, besides what every page may


class CrossOrigin:
    """ASGI middleware around the edge, which sees every request but the preflights that are answered here.

    There are no wildcards and no cookies: a page sends its token itself.
    """

    def __init__(self, edge: ASGIApp, *, origins: frozenset[str], names: Names) -> None:
        self._edge = edge
        self._origins = origins
        self._names = names
        self._shared = CORSMiddleware(
            edge, allow_origins=tuple(origins), allow_methods=_METHODS, allow_headers=_SENT, expose_headers=_SEEN
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = False
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            hosts, origins = headers.getlist("host"), headers.getlist("origin")
            ours = len(hosts) == 1 and self._names.allow(hosts[0])  # a name that is not ours is for the edge to refuse
            allowed = ours and len(origins) == 1 and origins[0] in self._origins
        await (self._shared if allowed else self._edge)(scope, receive, send)
