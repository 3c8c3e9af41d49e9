"""The parts of the OpenAPI document that do not come from the routes."""

from typing import Any

from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer

DESCRIPTION = """\
Tools of a sandboxed execution engine over HTTP: list the tools of a turn, call them, follow a call while it runs, and
approve calls that wait for a person.

Every request needs a token (`knackbox serve token add NAME`), sent as `Authorization: Bearer …`. The token determines
the user and the permissions. Errors are problem details (RFC 9457, `application/problem+json`) whose `detail` says what
to do. A tool that ran and failed is not an HTTP error: the response has status 200, and `success` is false.
"""
TAGS = [
    {"name": "tools", "description": "The tools that the caller may call."},
    {"name": "calls", "description": "Call tools, follow and cancel calls, and read the record of calls."},
    {"name": "approvals", "description": "Calls that wait for a person's answer."},
    {
        "name": "modules",
        "description": "The module protocol: this engine as a module of another engine, and the modules it uses.",
    },
    {"name": "server", "description": "The state of the server itself."},
]
SERVERS = [{"url": "/", "description": "The server that provided this document."}]
_BEARER = HTTPBearer(auto_error=False, description="A token created with `knackbox serve token add`.")
_OPEN = frozenset({"/health"})
# Maps a class name to its name in the document, which generated clients use.
_SCHEMA_NAMES = {"ManifestResponse": "Manifest"}
_SCHEMAS = "#/components/schemas/"

# This only documents the token; the edge checks it.
TOKEN = Security(_BEARER)


def complete_document(app: FastAPI) -> None:
    """Complete the OpenAPI document of an application.

    The function marks every operation as needing a token, except those open to everyone, and gives schemas their public
    names.
    """
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        document["security"] = [{_BEARER.scheme_name: []}]
        for path in _OPEN & document["paths"].keys():
            for operation in document["paths"][path].values():
                operation["security"] = []
        schemas = document["components"]["schemas"]
        for own, public in _SCHEMA_NAMES.items():
            if own in schemas:  # otherwise FastAPI returned its cached document, which is complete
                schemas[public] = {**schemas.pop(own), "title": public}
                _replace_refs(document, _SCHEMAS + own, _SCHEMAS + public)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documentation recommends this


def _replace_refs(node: Any, old: str, new: str) -> None:
    """Replace every reference to one schema with a reference to another, in place."""
    if isinstance(node, dict):
        if node.get("$ref") == old:
            node["$ref"] = new
        for inner in node.values():
            _replace_refs(inner, old, new)
    elif isinstance(node, list):
        for inner in node:
            _replace_refs(inner, old, new)
