"""Routes that list the tools of a turn in a provider's format and describe one tool."""

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
from engine.interfaces.http.bodies import Format, ListOptions, ToolList, turn_fields
from engine.interfaces.http.edge import DecodedRoute
from engine.interfaces.http.responses import AsciiJsonResponse, HttpProblem
from engine.interfaces.http.route_context import CurrentCaller, RouteContext, problems

Specs = Sequence[ToolSpec]


def tool_routes(context: RouteContext) -> APIRouter:
    """Return the routes. They show each caller only the tools that this caller may call."""
    routes = APIRouter(prefix="/api/tools", route_class=DecodedRoute)

    @routes.get("", response_model=ToolList, responses=problems(422))
    async def tools(options: Annotated[ListOptions, Query()], caller: CurrentCaller) -> Response:
        """List the tools of a turn. Their order is the same in every turn. Many skills are split into pages."""
        page = await context.engine.tool_page(options.turn_of(caller), options.after, options.limit)
        try:
            formatted = FORMATS[options.format]([tool.spec for tool in page.listed.tools])
        except FormatError as error:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return AsciiJsonResponse({"format": options.format, "tools": formatted, "next": page.next})

    @routes.get("/{name}", response_model=dict[str, Any], responses=problems(404, 422))
    async def tool(name: Annotated[str, Path(max_length=400)], caller: CurrentCaller) -> Response:
        """Describe one tool that the caller may call."""
        try:
            spec = await context.engine.describe_tool(name, Turn(**turn_fields(caller)))
        except ToolFailure as failure:
            raise HttpProblem(HTTPStatus.NOT_FOUND, str(failure)) from failure
        return AsciiJsonResponse(spec_to_json(spec))

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
