"""The tools of the conformance suite for parts of the protocol that tools of Knackbox do not use.

They return audio and embedded resources, and ask the client for samples, roots and several rounds of input.
"""

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.server.subscriptions import PromptsListChanged, SubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    TextContent,
    Tool,
)

from bench.mcp_conformance.content import HEADERS, IMAGE, SCHEMA_2020_12, embedded, form, sample, silence
from engine.interfaces.mcp.opening import Context

Answer = CallToolResult | InputRequiredResult
Answers = Callable[[Context, CallToolRequestParams], Awaitable[Answer]]


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


class ProtocolTools:
    """Answers calls of these tools."""

    def __init__(self, bus: SubscriptionBus) -> None:
        self._bus = bus
        self._key = secrets.token_bytes(32)
        self._answers: Mapping[str, Answers] = {
            "test_audio_content": self._fixed(silence()),
            "test_embedded_resource": self._fixed(
                embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
            ),
            "test_multiple_content_types": self._fixed(
                TextContent(text="Multiple content types test:"),
                IMAGE,
                embedded("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}'),
            ),
            "test_missing_capability": self._needs_sampling,
            "test_streaming_elicitation": self._asks({"user_name": form("What is your name?", "name")}),
            "test_logging_tool": self._logs,
            "test_trigger_tool_change": self._changes_tools,
            "test_trigger_prompt_change": self._changes_prompts,
            "test_input_required_result_elicitation": self._asks({"user_name": form("What is your name?", "name")}),
            "test_input_required_result_sampling": self._asks({"capital": sample("What is the capital of France?")}),
            "test_input_required_result_list_roots": self._asks({"client_roots": ListRootsRequest()}),
            "test_input_required_result_request_state": self._asks(
                {"confirm": form("Please confirm", "ok", "boolean")}, signed=True
            ),
            "test_input_required_result_tampered_state": self._asks(
                {"confirm": form("Please confirm", "ok", "boolean")}, signed=True
            ),
            "test_input_required_result_multiple_inputs": self._asks(
                {
                    "user_name": form("What is your name?", "name"),
                    "greeting": sample("Generate a greeting"),
                    "client_roots": ListRootsRequest(),
                },
                signed=True,
            ),
            "test_input_required_result_multi_round": self._rounds,
            "test_input_required_result_capabilities": self._what_the_client_can,
        }

    def listed(self) -> list[Tool]:
        schemas = {name: {"type": "object"} for name in self._answers} | {"json_schema_2020_12_tool": SCHEMA_2020_12}
        return [
            Tool(name=name, description="A tool of the conformance suite.", input_schema=schema)
            for name, schema in schemas.items()
        ] + [Tool(name="test_custom_headers", description="Declares headers.", input_schema=HEADERS)]

    def schema(self, name: str) -> Mapping[str, Any] | None:
        return HEADERS if name == "test_custom_headers" else None

    def find(self, name: str) -> Answers | None:
        if name in {"json_schema_2020_12_tool", "test_custom_headers"}:
            return self._fixed(TextContent(text="called"))
        return self._answers.get(name)

    @staticmethod
    def _fixed(*content: Any) -> Answers:
        async def answer(_: Context, __: CallToolRequestParams) -> Answer:
            return CallToolResult(content=list(content))

        return answer

    def _asks(self, requests: dict[str, Any], *, signed: bool = False) -> Answers:
        async def answer(_: Context, params: CallToolRequestParams) -> Answer:
            if signed and params.request_state is not None:
                self._check(params.request_state, "asked")
            given = params.input_responses or {}
            if not all(_answers(request, given.get(key)) for key, request in requests.items()):
                state = self._sign("asked") if signed else None
                return InputRequiredResult(input_requests=requests, request_state=state)
            return said("state-ok: thank you")

        return answer

    async def _rounds(self, _: Context, params: CallToolRequestParams) -> Answer:
        step = 0 if params.request_state is None else int(self._check(params.request_state, "1", "2"))
        if step == 2:
            return said("Thank you.")
        question = (form("Step 1: What is your name?", "name"), form("Step 2: What is your favorite color?", "color"))
        return InputRequiredResult(
            input_requests={f"step{step + 1}": question[step]}, request_state=self._sign(str(step + 1))
        )

    @staticmethod
    async def _what_the_client_can(context: Context, params: CallToolRequestParams) -> Answer:
        capabilities = context.session.client_capabilities
        requests: dict[str, Any] = {}
        if capabilities is not None and capabilities.elicitation is not None:
            requests["user_name"] = form("What is your name?", "name")
        if capabilities is not None and capabilities.sampling is not None:
            requests["greeting"] = sample("Generate a greeting")
        if params.input_responses or not requests:
            return said("done")
        return InputRequiredResult(input_requests=requests)

    @staticmethod
    async def _needs_sampling(context: Context, _: CallToolRequestParams) -> Answer:
        capabilities = context.session.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs the capability sampling.", needed)
        return said("done")

    @staticmethod
    async def _logs(context: Context, _: CallToolRequestParams) -> Answer:
        await context.session.send_log_message("info", "A log message.")
        return said("done")

    async def _changes_tools(self, _: Context, __: CallToolRequestParams) -> Answer:
        await self._bus.publish(ToolsListChanged())
        return said("done")

    async def _changes_prompts(self, _: Context, __: CallToolRequestParams) -> Answer:
        await self._bus.publish(PromptsListChanged())
        return said("done")

    def _sign(self, state: str) -> str:
        return f"{state}.{hmac.new(self._key, state.encode(), hashlib.sha256).hexdigest()}"

    def _check(self, given: str, *states: str) -> str:
        for state in states:
            if hmac.compare_digest(given, self._sign(state)):
                return state
        raise MCPError(INVALID_PARAMS, "requestState is not valid.")


def _answers(request: Any, response: Any) -> bool:
    """Return whether a response is an acceptable answer to a request."""
    if isinstance(request, ElicitRequest):
        return isinstance(response, ElicitResult) and response.action == "accept" and bool(response.content)
    return response is not None
