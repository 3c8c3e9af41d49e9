"""An HTTP module with the tools of `operations`, in the protocol of Knackbox's modules."""

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.programs.operations import Operation, operations, perform
from bench.programs.records import tables


def http_module(module: str) -> Starlette:
    """Return a module with records of its own."""
    records = tables()
    offered = {f"{module}.{each.name}": each for each in operations(module)}

    async def manifest(_: Request) -> JSONResponse:
        listed = [_listed(name, each) for name, each in offered.items()]
        return JSONResponse({"module_name": module, "description": f"The {module} system.", "tools": listed})

    async def execute(request: Request) -> JSONResponse:
        asked = await request.json()
        name = asked["tool_name"]
        try:
            result = perform(records, offered[name], asked["arguments"])
        except (LookupError, ValueError) as error:
            return JSONResponse({"tool_name": name, "success": False, "error": str(error)})
        return JSONResponse({"tool_name": name, "success": True, "result": result})

    return Starlette(routes=[Route("/manifest", manifest), Route("/execute", execute, methods=["POST"])])


def _listed(name: str, operation: Operation) -> dict[str, Any]:
    return {
        "name": name,
        "description": operation.description,
        "read_only": operation.reads,
        "parameters": [
            {"name": given, "type": kind, "description": description, "required": required}
            for given, kind, description, required in operation.parameters
        ],
    }
