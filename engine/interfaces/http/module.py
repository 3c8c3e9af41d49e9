"""Routes of the module protocol: this engine as a module of another, and the modules it knows itself (MOD-5)."""

from collections.abc import AsyncIterator
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from engine.app.modules import modules_of_guest
from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.interfaces.http.answers import HttpProblem, Json
from engine.interfaces.http.bodies import ExecuteAnswer, ExecuteBody, Manifest, ModuleList, who
from engine.interfaces.http.calls import refuse_if_busy
from engine.interfaces.http.edge import ReadRoute
from engine.interfaces.http.served import Served, Who, problems
from engine.interfaces.http.tokens import Caller
from engine.policy.access import user_rank

_DESCRIPTION = "Runs code in a sandbox, and learns tools."


def module_routes(served: Served) -> APIRouter:
    """GET /manifest, POST /execute and what goes with them."""
    routes = APIRouter(route_class=ReadRoute)
    endpoints = ModuleEndpoints(served)

    @routes.get("/manifest", response_model=Manifest, responses=problems())
    async def manifest(caller: Who) -> Response:
        """The tools this caller may call, as another engine reads them."""
        return Json(await endpoints.manifest(caller))

    @routes.post("/execute", response_model=ExecuteAnswer, responses=problems(422, 429))
    async def execute(body: ExecuteBody, caller: Who, request: Request) -> Response:
        """Call `module.tool`. The user is the token's; a `user_id` in the body is ignored."""
        module, dot, tool = body.tool_name.partition(".")
        if not (module and dot and tool):
            text = f"Invalid tool name format: {body.tool_name}. Expected 'module.tool_name'."
            return answered(body.tool_name, error=text)
        return await endpoints.call(caller, module, tool, body, request)

    @routes.get("/api/modules", response_model=ModuleList, responses=problems())
    async def modules(caller: Who) -> Response:
        """This engine, and the modules it knows, as far as the caller may use them."""
        return Json({"modules": await endpoints.modules(caller)})

    @routes.post("/api/modules/{module}/execute", response_model=ExecuteAnswer, responses=problems(422, 429))
    async def execute_in(
        module: Annotated[str, Path(max_length=64)], body: ExecuteBody, caller: Who, request: Request
    ) -> Response:
        """Call a tool of one module, by its name with or without the module's."""
        return await endpoints.call(caller, module, body.tool_name.removeprefix(f"{module}."), body, request)

    @routes.post("/refresh-tools", response_model=ModuleList, responses=problems())
    async def refresh(caller: Who) -> Response:
        """Ask every module for its tools again; for admins and owners."""
        if user_rank(caller.permission) < user_rank("admin"):
            raise HttpProblem(HTTPStatus.FORBIDDEN, "Refreshing modules takes the permission admin.")
        await served.engine.modules.refresh()
        return Json({"modules": await endpoints.modules(caller)})

    return routes


class ModuleEndpoints:
    """The engine as the protocol sees it."""

    def __init__(self, served: Served) -> None:
        self._engine = served.engine
        self._calls = served.calls
        self._own = served.module_name

    async def manifest(self, caller: Caller) -> dict[str, Any]:
        """Our own tools. Those of modules are left out: two engines that are each other's modules would offer each
        other what they have from each other, without end."""
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
        """Ourselves first, each with the tools this caller may call. Why one is not reachable is for admins."""
        turn = Turn(**who(caller))
        names: dict[str, list[str]] = {}
        async for module, spec in self._tools(caller):
            names.setdefault(module, []).append(spec.name)
        allowed = modules_of_guest(turn, self._engine.settings.modules)
        admin = user_rank(caller.permission) >= user_rank("admin")
        mine: dict[str, Any] = {
            "name": self._own,
            "kind": "self",
            "description": _DESCRIPTION,
            "reachable": True,
            "error": "",
        }
        theirs: list[dict[str, Any]] = [
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
        return [{**each, "tools": names.get(each["name"], [])} for each in [mine, *theirs]]

    async def call(self, caller: Caller, module: str, tool: str, body: ExecuteBody, request: Request) -> Response:
        """One call by the protocol."""
        if module == self._own:
            name = tool
        elif module in self._others():
            name = f"{module}.{tool}"
        else:
            return answered(body.tool_name, error=f"Unknown module: {module}")
        running = self._calls.start(caller, name, body.arguments, Turn(**who(caller)), client=request.client)
        result = await running.result(request)
        if result is None:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody is there to read it
        refuse_if_busy(result)
        return answered(body.tool_name, result)

    async def _tools(self, caller: Caller) -> AsyncIterator[tuple[str, ToolSpec]]:
        """What the caller may call, each with its module."""
        others = self._others()
        async for listed in self._engine.tool_pages(Turn(**who(caller))):
            for tool in listed.tools:
                module = tool.spec.name.partition(".")[0]
                yield module if module in others else self._own, tool.spec

    def _others(self) -> set[str]:
        return {state.name for state in self._engine.modules.states()}


def answered(tool_name: str, result: ToolResult | None = None, error: str = "") -> Json:
    """The protocol's answer: a value, or the text a model reads when there is none."""
    if result is None or not result.success:
        said = error if result is None else result.text
        return Json({"tool_name": tool_name, "success": False, "result": None, "error": said})
    value = result.output if result.output is not None else result.message
    return Json({"tool_name": tool_name, "success": True, "result": value, "error": None})
