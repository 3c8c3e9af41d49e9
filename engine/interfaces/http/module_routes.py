"""Routes that make this engine a module of another engine, and routes for the modules that it uses itself (MOD-5)."""

from collections.abc import AsyncIterator
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from engine.app.turns import modules_of
from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.interfaces.http.bodies import ExecuteAnswer, ExecuteBody, ManifestResponse, ModuleList, turn_fields
from engine.interfaces.http.edge import DecodedRoute
from engine.interfaces.http.responses import AsciiJsonResponse, HttpProblem
from engine.interfaces.http.route_context import CurrentCaller, RouteContext, problems
from engine.interfaces.http.running_calls import refuse_if_busy
from engine.interfaces.http.tokens import Caller
from engine.policy.access import user_rank

_DESCRIPTION = "Runs code in a sandbox and learns tools."


def module_routes(context: RouteContext) -> APIRouter:
    """Return the routes of the protocol, and the routes that list and refresh modules."""
    routes = APIRouter(route_class=DecodedRoute)
    endpoints = ModuleEndpoints(context)

    @routes.get("/manifest", response_model=ManifestResponse, responses=problems())
    async def manifest(caller: CurrentCaller) -> Response:
        """List the tools of this engine that the caller may call, in the format of the module protocol."""
        return AsciiJsonResponse(await endpoints.manifest(caller))

    @routes.post("/execute", response_model=ExecuteAnswer, responses=problems(422, 429))
    async def execute(body: ExecuteBody, caller: CurrentCaller, request: Request) -> Response:
        """Call the tool named `module.tool`. The token determines the user; a `user_id` in the body is ignored."""
        module, dot, tool = body.tool_name.partition(".")
        if not (module and dot and tool):
            text = f"Invalid tool name format: {body.tool_name}. Expected 'module.tool_name'."
            return execute_answer(body.tool_name, error=text)
        return await endpoints.call(caller, module, tool, body, request)

    @routes.get("/api/modules", response_model=ModuleList, responses=problems())
    async def modules(caller: CurrentCaller) -> Response:
        """List this engine and the modules it uses, as far as the caller may use them."""
        return AsciiJsonResponse({"modules": await endpoints.modules(caller)})

    @routes.post("/api/modules/{module}/execute", response_model=ExecuteAnswer, responses=problems(422, 429))
    async def execute_in(
        module: Annotated[str, Path(max_length=64)], body: ExecuteBody, caller: CurrentCaller, request: Request
    ) -> Response:
        """Call a tool of one module. The name of the module may be omitted from `tool_name`."""
        return await endpoints.call(caller, module, body.tool_name.removeprefix(f"{module}."), body, request)

    @routes.post("/refresh-tools", response_model=ModuleList, responses=problems())
    async def refresh(caller: CurrentCaller) -> Response:
        """Fetch the tools of every module again. Only admins and owners may do this."""
        if user_rank(caller.permission) < user_rank("admin"):
            raise HttpProblem(HTTPStatus.FORBIDDEN, "Refreshing modules requires the permission admin.")
        await context.engine.modules.refresh()
        return AsciiJsonResponse({"modules": await endpoints.modules(caller)})

    return routes


class ModuleEndpoints:
    """The operations of the module protocol on an engine."""

    def __init__(self, context: RouteContext) -> None:
        self._engine = context.engine
        self._calls = context.calls
        self._own = context.module_name

    async def manifest(self, caller: Caller) -> dict[str, Any]:
        """Return this engine's own tools that the caller may call.

        Tools of modules are omitted, because two engines that are modules of each other would otherwise pass the same
        tools back and forth endlessly.
        """
        tools = [
            {
                "name": f"{self._own}.{spec.name}",
                "description": spec.description,
                "parameters": {"type": "object", **spec.parameters},
                "required_permission": spec.required_permission,
                "annotations": asdict(spec.annotations),
            }
            async for module, spec in self._tools(caller)
            if module == self._own
        ]
        return {"module_name": self._own, "description": _DESCRIPTION, "tools": tools}

    async def modules(self, caller: Caller) -> list[dict[str, Any]]:
        """Return this engine and its modules, each with the tools the caller may call. Only admins see errors."""
        turn = Turn(**turn_fields(caller))
        names: dict[str, list[str]] = {}
        async for module, spec in self._tools(caller):
            names.setdefault(module, []).append(spec.name)
        allowed = modules_of(turn, self._engine.settings.modules)
        admin = user_rank(caller.permission) >= user_rank("admin")
        own: dict[str, Any] = {
            "name": self._own,
            "kind": "self",
            "description": _DESCRIPTION,
            "reachable": True,
            "error": "",
        }
        others: list[dict[str, Any]] = [
            {
                "name": state.name,
                "kind": state.kind,
                "description": state.description,
                "reachable": state.reachable,
                "error": state.error if admin else "",
            }
            for state in self._engine.modules.states()
            if allowed is None or state.name in allowed
        ]
        return [{**each, "tools": names.get(each["name"], [])} for each in [own, *others]]

    async def call(self, caller: Caller, module: str, tool: str, body: ExecuteBody, request: Request) -> Response:
        """Call one tool and return the response of the protocol."""
        if module == self._own:
            name = tool
        elif module in self._others():
            name = f"{module}.{tool}"
        else:
            return execute_answer(body.tool_name, error=f"Unknown module: {module}")
        running = self._calls.start(caller, name, body.arguments, Turn(**turn_fields(caller)), client=request.client)
        result = await running.result(request)
        if result is None:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # the client has disconnected and does not read this
        refuse_if_busy(result)
        return execute_answer(body.tool_name, result)

    async def _tools(self, caller: Caller) -> AsyncIterator[tuple[str, ToolSpec]]:
        """Yield each tool that the caller may call, with the name of its module."""
        others = self._others()
        async for listed in self._engine.tool_pages(Turn(**turn_fields(caller))):
            for tool in listed.tools:
                module = tool.spec.name.partition(".")[0]
                yield module if module in others else self._own, tool.spec

    def _others(self) -> set[str]:
        return {state.name for state in self._engine.modules.states()}


def execute_answer(tool_name: str, result: ToolResult | None = None, error: str = "") -> AsciiJsonResponse:
    """Return the response of the protocol: the value of a successful result, otherwise an error text."""
    if result is None or not result.success:
        text = error if result is None else result.text
        return AsciiJsonResponse({"tool_name": tool_name, "success": False, "result": None, "error": text})
    value = result.output if result.output is not None else result.message
    return AsciiJsonResponse({"tool_name": tool_name, "success": True, "result": value, "error": None})
