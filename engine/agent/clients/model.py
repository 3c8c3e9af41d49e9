"""`ModelClient`: sends requests to a model through pydantic-ai's low-level interface.

Importing this module loads pydantic_ai, which takes seconds, and creating a client loads the provider's own package. So
import this module only when a model is needed.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Self

import httpx2
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import DEFAULT_HTTP_TIMEOUT, Model, ModelRequestParameters, get_user_agent
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from engine.agent.clients.context_overflow import context_overflow
from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.pacing import ModelPacing, ModelPaused
from engine.agent.clients.text_calls import as_text, with_calls
from engine.agent.clients.tool_definitions import ToolDefinitions
from engine.contract.failure import ConfigError
from engine.contract.spec import ToolSpec
from engine.formats.names import ProviderNames
from engine.recovery.http_facts import parse_retry_after

OnText = Callable[[str], None]

_PAUSING = (429, 503)
_NO_KEY = "none"  # clients require a key, even for a server that does not
# Loading the certificates takes 50 ms, so all clients share them. They are loaded here, because this import runs in a
# thread, and clients are created in the event loop.
_CERTIFICATES = httpx2.create_ssl_context()
_CONNECT_S = 5.0
_CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)  # as in the providers' own clients


class ModelError(Exception):
    """A request to the model failed. The message names the model and says what to do."""


class ModelClient:
    """A client of a model. The client library retries transient failures (429, 5xx, lost connections)."""

    def __init__(self, endpoint: ModelEndpoint, *, repeats: bool = True, pacing: ModelPacing | None = None) -> None:
        """Create a client.

        Args:
            endpoint: The model.
            repeats: Whether the client library retries requests; False if the caller retries them.
            pacing: Shared by all clients of the same server, so that they keep its limits together.
        """
        self._pacing = pacing or ModelPacing()
        self.endpoint = endpoint
        self._http = httpx2.AsyncClient(
            verify=_CERTIFICATES,
            timeout=httpx2.Timeout(DEFAULT_HTTP_TIMEOUT, connect=_CONNECT_S),
            limits=_CONNECTIONS,
            headers={"User-Agent": get_user_agent()},
            event_hooks={"request": [_connect_soon], "response": [self._note_type, self._note_pause]},
        )
        self._answered_with = ""
        self._model = build(endpoint, self._http)
        self._definitions = ToolDefinitions(self._model)
        client: Any = getattr(self._model, "client", None)
        if not repeats and hasattr(client, "max_retries"):  # as in OpenAI's and Anthropic's clients
            client.max_retries = 0
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._http)
        await self._stack.enter_async_context(self._model)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def ask(
        self,
        messages: Sequence[ModelMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        may_call: bool = True,
        on_text: OnText | None = None,
        max_tokens: int | None = None,
    ) -> ModelResponse:
        """Make one request and return the whole response.

        Args:
            messages: The history.
            tools: The tools to describe.
            may_call: Whether the model may call the tools. If not, they are described nevertheless, because providers
                require this if there are calls in the history.
            on_text: Called with text as it arrives. None disables streaming.
            max_tokens: The longest response; None for the model's own limit.

        Raises:
            ModelError: The request failed.
        """
        definitions = self._definitions_of(tools)
        settings = ModelSettings(timeout=self.endpoint.timeout_s)
        if max_tokens is not None:
            settings["max_tokens"] = max_tokens
        if not self.endpoint.native_tools:
            return await self._ask_in_text(messages, definitions if may_call else [], settings, on_text)
        if tools and not may_call:
            settings["tool_choice"] = "none"
        return await self._ask(messages, settings, ModelRequestParameters(function_tools=definitions), on_text)

    def _definitions_of(self, tools: Sequence[ToolSpec]) -> list[ToolDefinition]:
        names = ProviderNames(tool.name for tool in tools)
        try:
            return [self._definitions.of(tool, names) for tool in tools]
        except UserError as error:
            raise ModelError(f"{self.endpoint} cannot be told of the tools: {one_line(error)}") from error

    async def _ask_in_text(
        self,
        messages: Sequence[ModelMessage],
        tools: Sequence[ToolDefinition],
        settings: ModelSettings,
        on_text: OnText | None,
    ) -> ModelResponse:
        """Ask a model without native tool calls. Nothing is streamed, because a partial call is unreadable."""
        response = await self._ask(as_text(messages, tools), settings, ModelRequestParameters(), None)
        found = with_calls(response)
        if on_text is not None and found.text:
            on_text(found.text)
        return found

    async def _ask(
        self,
        messages: Sequence[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        on_text: OnText | None,
    ) -> ModelResponse:
        self._answered_with = ""
        try:
            async with self._pacing.request():
                if on_text is None:
                    return await model_request(
                        self._model, messages, model_settings=settings, model_request_parameters=parameters
                    )
                return await self._stream(messages, settings, parameters, on_text)
        except ModelPaused as error:
            raise ModelError(
                f"The request to {self.endpoint} was not sent: {error}. Wait, or raise the quota."
            ) from error
        except (AgentRunError, UserError) as error:
            raise ModelError(f"The request to {self.endpoint} failed: {self._cause(error)}. {remedy(error)}") from error

    async def _note_type(self, response: httpx2.Response) -> None:
        """Remember the media type of a successful response if model servers do not normally send this type."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        speaks = kind.endswith(("json", "event-stream", "jsonl"))
        self._answered_with = kind if response.is_success and kind and not speaks else ""

    async def _note_pause(self, response: httpx2.Response) -> None:
        """Make all runs wait if the server is overloaded or its quota is used up, and it says for how long."""
        if response.status_code in _PAUSING:
            headers = response.headers
            wait = parse_retry_after(headers.get("retry-after"), headers.get("retry-after-ms"), datetime.now(UTC))
            self._pacing.pause(wait or 0.0)

    def _cause(self, error: Exception) -> str:
        """Return in one line why a request failed.

        If the server answered with an unexpected media type, the reason names that type instead of the library's error,
        which says less.
        """
        if not self._answered_with:
            return one_line(error)
        what = "a web page" if self._answered_with == "text/html" else "something else"
        return f"the server answered with {what} ({self._answered_with}), not with a model's reply"

    async def _stream(
        self,
        messages: Sequence[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        on_text: OnText,
    ) -> ModelResponse:
        async with model_request_stream(
            self._model, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for event in stream:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    piece = event.part.content
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    piece = event.delta.content_delta
                else:
                    continue
                if piece:
                    on_text(piece)
            response = stream.get()
        if not (response.provider_details or {}).get("finish_reason"):  # the library does not notice this
            raise ModelError(
                f"The request to {self.endpoint} failed: the response ended early. Check that the server is up."
            ) from ConnectionResetError("The server closed the stream before the end of its response.")
        return response


async def _connect_soon(request: httpx2.Request) -> None:
    """Limit the time to connect. The providers' clients send one timeout for everything with each request."""
    timeout = request.extensions.get("timeout", {})
    request.extensions = {**request.extensions, "timeout": {**timeout, "connect": _CONNECT_S}}


def build(endpoint: ModelEndpoint, http: httpx2.AsyncClient) -> Model:
    """Return the library's model for an endpoint. It sends its requests with `http`.

    Raises:
        ConfigError: The provider's client is not installed, or the key is missing.
    """
    try:
        match endpoint.provider:
            case "anthropic":
                return build_anthropic(endpoint, http)
            case "google":
                return build_google(endpoint, http)
            case _:
                return build_openai(endpoint, http)
    except ImportError as error:  # an extra of pydantic-ai is missing
        raise ConfigError(
            f"model: the client of {endpoint.provider} is not installed. pip install 'knackbox[{endpoint.provider}]'."
        ) from error
    except UserError as error:
        raise ConfigError(
            f"model: {endpoint} cannot be used: {one_line(error)} "
            "Set api_key in [model] of config.toml, or KNACKBOX_MODEL_API_KEY."
        ) from error


def build_openai(endpoint: ModelEndpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 -- each provider's client takes a second
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 -- for the same reason
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415 -- for the same reason

    if endpoint.base_url is None:
        return OpenAIChatModel(endpoint.name, provider=OpenAIProvider(api_key=endpoint.api_key, http_client=http))
    url, key = endpoint.base_url, endpoint.api_key
    provider = OpenAICompatibleProvider("configured", base_url=url, api_key=key, http_client=http)
    return OpenAIChatModel(endpoint.name, provider=provider)


def build_anthropic(endpoint: ModelEndpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415 -- each provider's client takes a second
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415 -- for the same reason

    provider = AnthropicProvider(api_key=_key(endpoint), base_url=endpoint.base_url, http_client=http)
    return AnthropicModel(endpoint.name, provider=provider)


def build_google(endpoint: ModelEndpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415 -- each provider's client takes a second
    from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415 -- for the same reason

    provider = GoogleProvider(api_key=_key(endpoint), base_url=endpoint.base_url, http_client=http)
    return GoogleModel(endpoint.name, provider=provider)


def _key(endpoint: ModelEndpoint) -> str | None:
    """Return the key to send. None lets the client use the provider's key from the environment."""
    return endpoint.api_key or (_NO_KEY if endpoint.base_url else None)


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def remedy(error: Exception) -> str:
    """Return a sentence that says what to do about an error of the model."""
    if context_overflow(error) is not None:
        return "The request is longer than the model's window: offer fewer tools, or send a shorter message."
    status = getattr(error, "status_code", None)
    return {
        401: "Check the API key.",
        403: "Check that the key may use this model.",
        404: "Check the model's name and base_url.",
        429: "Wait, or raise the quota.",
    }.get(status or 0, "Check base_url and that the server is up.")
