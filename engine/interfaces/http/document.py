"""The OpenAPI document of the HTTP interface, beyond what the routes say of themselves."""

from typing import Any

from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer

DESCRIPTION = """\
Tools of a sandboxed execution engine over HTTP: list the tools of a turn, call them, follow a call while it runs, and
answer for calls that wait for a person.

Every request needs a token (`knackbox serve token add NAME`), sent as `Authorization: Bearer …`. The token says who
asks, and what they may. Errors are problem details (RFC 9457, `application/problem+json`) whose `detail` says what to
do. A tool that ran and failed is no error of HTTP: the answer has status 200, and `success` is false.
"""
TAGS = [
    {"name": "tools", "description": "What the caller may call."},
    {"name": "calls", "description": "Calling tools, following and cancelling calls, and the record of calls."},
    {"name": "approvals", "description": "Calls that wait for a person's answer."},
    {"name": "modules", "description": "The module protocol: this engine as a module of another, and its own modules."},
    {"name": "server", "description": "The state of the server itself."},
]
SERVERS = [{"url": "/", "description": "The server that this document comes from."}]
_BEARER = HTTPBearer(auto_error=False, description="A token made with `knackbox serve token add`.")
_OPEN = frozenset({"/health"})

# The edge checks the token; this writes it into the document.
TOKEN = Security(_BEARER)


def complete(app: FastAPI) -> None:
    """Have the document say that a token is needed wherever an operation does not say otherwise."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document["security"] = [{_BEARER.scheme_name: []}]
        for path in _OPEN & document["paths"].keys():
            for operation in document["paths"][path].values():
                operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation has it
