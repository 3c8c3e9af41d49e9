"""The peer: a FastMCP server with the fixtures of the conformance suite, written as FastMCP recommends: ``… PORT``."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message
from fastmcp.tools.function_tool import FunctionTool
from fastmcp.utilities.types import Image
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    Completion,
    InputRequiredResult,
    ListRootsRequest,
    TextContent,
    ToolListChangedNotification,
)

from bench.mcp_conformance.content import HEADERS, IMAGE, PNG, SCHEMA_2020_12, embedded, form, sample, silence

server = FastMCP("conformance", dereference_schemas=False)


@server.tool
async def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@server.tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(0.02)
    return "done"


@server.tool
async def test_image_content() -> Image:
    """Return an image."""
    return Image(data=PNG, format="png")


@server.tool
async def test_audio_content() -> list[Any]:
    """Return audio."""
    return [silence()]


@server.tool
async def test_embedded_resource() -> list[Any]:
    """Return a resource."""
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@server.tool
async def test_multiple_content_types() -> list[Any]:
    """Return content of several types."""
    resource = embedded("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}')
    return [TextContent(text="Multiple content types test:"), IMAGE, resource]


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Send a log message."""
    await ctx.info("A log message.")
    return "done"


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Need a capability."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs the capability sampling.", needed)
    return "done"


@server.tool
async def test_trigger_tool_change(ctx: Context) -> str:
    """Announce changed tools."""
    await ctx.send_notification(ToolListChangedNotification())
    return "done"


def add_asking(name: str, requests: dict[str, Any], state: str | None = None) -> None:
    """Add a tool that asks once."""

    async def ask(ctx: Context) -> str | InputRequiredResult:
        given = ctx.input_responses or {}
        if not all(getattr(given.get(key), "content", given.get(key)) for key in requests):
            return InputRequiredResult(input_requests=requests, request_state=state)
        return "state-ok: thank you"

    server.tool(ask, name=name, description="Ask the client.")


for tool, asked, kept in (
    ("test_streaming_elicitation", {"user_name": form("What is your name?", "name")}, None),
    ("test_input_required_result_elicitation", {"user_name": form("What is your name?", "name")}, None),
    ("test_input_required_result_sampling", {"capital": sample("What is the capital of France?")}, None),
    ("test_input_required_result_list_roots", {"client_roots": ListRootsRequest()}, None),
    ("test_input_required_result_request_state", {"confirm": form("Please confirm", "ok", "boolean")}, "state"),
    ("test_input_required_result_tampered_state", {"confirm": form("Please confirm", "ok", "boolean")}, "state"),
    (
        "test_input_required_result_multiple_inputs",
        {
            "user_name": form("What is your name?", "name"),
            "greeting": sample("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        },
        "state",
    ),
):
    add_asking(tool, asked, kept)


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Ask twice."""
    step = int(ctx.request_state or 0)
    if step == 2:
        return "Thank you."
    question = (form("Step 1: What is your name?", "name"), form("Step 2: What is your favorite color?", "color"))[step]
    return InputRequiredResult(input_requests={f"step{step + 1}": question}, request_state=str(step + 1))


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    """Ask only what the client can answer."""
    capabilities = ctx.session.client_capabilities
    requests: dict[str, Any] = {}
    if capabilities is not None and capabilities.elicitation is not None:
        requests["user_name"] = form("What is your name?", "name")
    if capabilities is not None and capabilities.sampling is not None:
        requests["greeting"] = sample("Generate a greeting")
    return InputRequiredResult(input_requests=requests) if requests and not ctx.input_responses else "done"


def add_with_schema(name: str, schema: dict[str, Any]) -> None:
    """Add a tool whose schema is not derived from a function."""

    async def called(region: str | None = None, query: str | None = None, address: Any = None) -> str:
        return f"called with {region}, {query}, {address}"

    server.add_tool(FunctionTool(fn=called, name=name, description="A tool with a schema.", parameters=schema))


add_with_schema("json_schema_2020_12_tool", SCHEMA_2020_12)
add_with_schema("test_custom_headers", HEADERS)


def add_resource(uri: str, kind: str, content: str | bytes) -> None:
    """Add a resource."""

    async def read() -> Any:
        return content

    add: Callable[..., Any] = server.resource(uri, name=uri, mime_type=kind)
    add(read)


add_resource("test://static-text", "text/plain", "This is the content of the static text resource.")
add_resource("test://static-binary", "image/png", PNG)
add_resource("test://watched-resource", "text/plain", "Watched.")


@server.resource("test://template/{id}/data", mime_type="application/json")
async def template(id: str) -> str:  # noqa: A002 -- the name in the template
    """Return data."""
    return f'{{"id": "{id}", "templateTest": true}}'


@server.prompt
async def test_simple_prompt() -> str:
    """Return a text."""
    return "This is a simple prompt for testing."


@server.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Return the arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 -- named by the suite
    """Return a resource."""
    return [Message(embedded(resourceUri, "text/plain", "A resource."))]


@server.prompt
async def test_prompt_with_image() -> list[Any]:
    """Return an image."""
    return [Message(IMAGE), Message("Please analyze the image above.")]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> Any:
    """Ask the client."""
    if not ctx.input_responses:
        question = form("What context should the prompt use?", "context")
        return InputRequiredResult(input_requests={"user_context": question})
    return "Thank you."


@server.completion
async def complete(*_: Any) -> Completion:
    """Return completions."""
    return Completion(values=["paris", "park", "party"], total=3, has_more=False)


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
