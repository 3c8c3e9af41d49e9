"""Knackbox's HTTP server with the fixtures of the conformance suite: ``… HOME PORT``.

Requests pass the whole server: the edge, tokens, sessions, the SDK's server and, for `ENGINE_TOOLS`, the engine. The
suite cannot send tokens, so one is added to its requests. The other fixtures are answered here, because Knackbox has no
prompts, completions, samples or roots.
"""

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from bench.mcp_conformance.content import IMAGE, embedded, form
from bench.mcp_conformance.protocol_tools import ProtocolTools
from bench.mcp_conformance.tools import ENGINE_TOOLS
from engine import Engine
from engine.app.home import Home
from engine.app.people import People
from engine.interfaces.http.app import build_app
from engine.interfaces.http.approver import HttpApprover
from engine.interfaces.http.edge import BodyLimits
from engine.interfaces.http.listen import listen, names_of, url_of
from engine.interfaces.http.mcp_endpoint import AccessOfTokens, McpEndpoint, mcp_server
from engine.interfaces.http.route_context import RouteContext
from engine.interfaces.http.running_calls import RunningCalls
from engine.interfaces.http.server import HttpServer, config_of
from engine.interfaces.http.tokens import Caller, Tokens
from engine.interfaces.mcp.clients import Clients
from engine.interfaces.mcp.elicitation import McpElicitation
from engine.interfaces.mcp.engine_handler import EngineHandler, handler_of
from engine.interfaces.mcp.opening import Context
from engine.interfaces.mcp.session_events import SessionManager
from engine.registry.static import StaticSource

RESOURCES = ("test://static-text", "test://static-binary", "test://watched-resource")
PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


class FixtureHandler:
    """Answers the requests for fixtures, and passes all others to the handler of the engine."""

    def __init__(self, inner: EngineHandler, tools: ProtocolTools) -> None:
        self._inner = inner
        self._tools = tools

    async def list_tools(self, context: Context, cursor: str = "") -> ListToolsResult:
        page = await self._inner.list_tools(context, cursor)
        page.tools += self._tools.listed() if not cursor else []
        return page

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        answers = self._tools.find(params.name)
        return await (self._inner.call_tool if answers is None else answers)(context, params)

    async def list_resources(self, context: Context, cursor: str = "") -> ListResourcesResult:
        page = await self._inner.list_resources(context, cursor)
        page.resources += [Resource(name=uri, uri=uri) for uri in RESOURCES] if not cursor else []
        return page

    async def read_resource(self, context: Context, uri: str) -> ReadResourceResult:
        if uri == "test://static-binary":
            blob = BlobResourceContents(uri=uri, mime_type="image/png", blob=IMAGE.data)
            return ReadResourceResult(contents=[blob])
        if uri.startswith("test://template/"):
            data = json.dumps({"id": uri.split("/")[3], "templateTest": True, "data": uri})
            return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="application/json", text=data)])
        if uri in RESOURCES:
            text = "This is the content of the static text resource."
            return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="text/plain", text=text)])
        return await self._inner.read_resource(context, uri)


def add_prompts(server: Server[Any]) -> None:
    """Add prompts, completion and resource templates."""

    async def list_prompts(_: Context, __: PaginatedRequestParams) -> ListPromptsResult:
        return ListPromptsResult(
            prompts=[
                Prompt(
                    name=name,
                    description="A prompt.",
                    arguments=[PromptArgument(name=each, description="A text.", required=True) for each in arguments],
                )
                for name, arguments in PROMPTS.items()
            ]
        )

    async def get_prompt(_: Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
        given = params.arguments or {}
        if params.name not in PROMPTS:
            raise MCPError(INVALID_PARAMS, f"There is no prompt {params.name}.")
        if params.name == "test_input_required_result_prompt" and not params.input_responses:
            question = form("What context should the prompt use?", "context")
            return InputRequiredResult(input_requests={"user_context": question})
        content: list[Any] = [TextContent(text=f"A prompt with {given}.")]
        if params.name == "test_simple_prompt":
            content = [TextContent(text="This is a simple prompt for testing.")]
        if params.name == "test_prompt_with_image":
            content = [IMAGE, *content]
        if params.name == "test_prompt_with_embedded_resource":
            content = [embedded(given["resourceUri"], "text/plain", "A resource."), *content]
        return GetPromptResult(messages=[PromptMessage(role="user", content=each) for each in content])

    async def complete(_: Context, __: CompleteRequestParams) -> CompleteResult:
        return CompleteResult(completion=Completion(values=["paris", "park", "party"], total=3, has_more=False))

    async def templates(_: Context, __: PaginatedRequestParams) -> ListResourceTemplatesResult:
        template = ResourceTemplate(name="template", uri_template="test://template/{id}/data")
        return ListResourceTemplatesResult(resource_templates=[template])

    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", CompleteRequestParams, complete)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, templates)


def with_token(app: ASGIApp, token: str) -> ASGIApp:
    """Return the application as it is seen by a client that sends the token."""

    async def send_token(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]}
        await app(scope, receive, send)

    return send_token


async def main(home: Home, port: int) -> None:
    approver, elicitation = HttpApprover(), McpElicitation()
    listening = listen("127.0.0.1", port, allow_remote=False)
    source = StaticSource("conformance", ENGINE_TOOLS)
    async with Engine.open(
        home.root, sources=[source], packs=False, environ={}, people=People(approver=elicitation)
    ) as engine:
        settings = engine.settings.http
        tokens = Tokens(engine.services.records, engine.services.clock)
        token = tokens.add(Caller("conformance", "conformance", approves=True))
        bus = InMemorySubscriptionBus()
        clients, listen_handler, tools = Clients(bus), ListenHandler(bus), ProtocolTools(bus)
        async with aclosing(RunningCalls(engine, 100, tokens.still_valid)) as calls:
            access = AccessOfTokens(calls)
            async with handler_of(engine, clients, elicitation, access) as inner:
                server = mcp_server(engine, FixtureHandler(inner, tools), listen_handler, clients)
                find_schema = server.get_tool_input_schema
                server.get_tool_input_schema = lambda name: tools.schema(name) or (find_schema and find_schema(name))
                add_prompts(server)
                manager = SessionManager(server)
                async with manager.run():
                    endpoint = McpEndpoint(manager, listen_handler)
                    app = build_app(
                        RouteContext(engine, calls, approver, settings.module_name),
                        tokens.lookup,
                        names_of(listening, "127.0.0.1", ()),
                        BodyLimits(settings.body_bytes, settings.body_s),
                        mcp=endpoint,
                    )

                    def stop() -> None:
                        calls.stop()
                        endpoint.close_streams()

                    def started() -> None:
                        print(json.dumps({"url": url_of(listening)}), flush=True)

                    config = config_of(with_token(app, token), settings)
                    await HttpServer(config, stop, started).serve([listening])


if __name__ == "__main__":
    asyncio.run(main(Home(Path(sys.argv[1])), int(sys.argv[2])))
