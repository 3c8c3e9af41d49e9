"""Routes of tools: those of a turn in a provider's format, and all about one."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from engine.contract.failure import ToolFailure
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.formats.anthropic import tools_to_anthropic_format
from engine.formats.gemini import tools_to_gemini_format
from engine.formats.mcp import tools_to_mcp_format
from engine.formats.openai import tools_to_openai_format, tools_to_responses_format
from engine.formats.schema import FormatError
from engine.formats.spec_json import spec_to_json
from engine.interfaces.http.answers import HttpProblem, Json
from engine.interfaces.http.bodies import Format, ListOptions, ToolList, who
from engine.interfaces.http.edge import ReadRoute
from engine.interfaces.http.served import Served, Who, problems

Specs = Sequence[ToolSpec]


def tool_routes(served: Served) -> APIRouter:
    """What may be called. Each caller is shown what that caller may call."""
    routes = APIRouter(prefix="/api/tools", route_class=ReadRoute)

    @routes.get("", response_model=ToolList, responses=problems(422))
    async def tools(options: Annotated[ListOptions, Query()], caller: Who) -> Response:
        """The tools of a turn, in an order that stays the same from turn to turn; many skills come in pages."""
        page = await served.engine.tool_page(options.turn_of(caller), options.after, options.limit)
        try:
            shown = FORMATS[options.format]([tool.spec for tool in page.listed.tools])
        except FormatError as error:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return Json({"format": options.format, "tools": shown, "next": page.next})

    @routes.get("/{name}", response_model=dict[str, Any], responses=problems(404, 422))
    async def tool(name: Annotated[str, Path(max_length=400)], caller: Who) -> Response:
        """All about one tool that the caller may call."""
        try:
            spec = await served.engine.describe_tool(name, Turn(**who(caller)))
        except ToolFailure as failure:
            raise HttpProblem(HTTPStatus.NOT_FOUND, str(failure)) from failure
        return Json(spec_to_json(spec))

    return routes


def _specs(specs: Specs) -> list[dict[str, Any]]:
    return [spec_to_json(spec) for spec in specs]


def _mcp(specs: Specs) -> list[dict[str, Any]]:
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools_to_mcp_format(specs)]


FORMATS: Mapping[Format, Callable[[Specs], list[dict[str, Any]]]] = {
    "openai": tools_to_openai_format,
    "openai-responses": tools_to_responses_format,
    "anthropic": tools_to_anthropic_format,
    "gemini": tools_to_gemini_format,
    "mcp": _mcp,
    "spec": _specs,
}
