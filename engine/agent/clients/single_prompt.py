"""Sends one prompt to a model.

Importing this module takes seconds, like `engine.agent.clients.model`; its callers import it only when they send
the first prompt.
"""

import asyncio

import anyio.lowlevel
from pydantic_ai.messages import ModelRequest, UserContent, UserPromptPart

from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.model import ModelClient, ModelError
from engine.agent.clients.provider_failure import provider_failure
from engine.contract.failure import ToolFailure


async def ask(
    endpoint: ModelEndpoint,
    prompt: str,
    *,
    system: str = "",
    max_tokens: int | None = None,
    content: tuple[UserContent, ...] = (),
    called: str = "The model",
    service: str = "model",
) -> str:
    """Return the answer of a model as text.

    Args:
        endpoint: The model.
        prompt: The text of the message.
        system: Instructions for the model.
        max_tokens: The longest answer; None for the model's own limit.
        content: Further parts of the message, such as images.
        called: The subject of error messages, such as "The vision model".
        service: The name that the reason of a failure gives to the service, such as ``"vision_model"``.

    Raises:
        ToolFailure: The model failed, or returned no answer.
    """
    request = ModelRequest(parts=[UserPromptPart(content=[prompt, *content])], instructions=system or None)
    try:
        async with await asyncio.to_thread(_client, endpoint) as model:
            response = await model.ask([request], max_tokens=max_tokens)
    except ModelError as error:
        raise provider_failure(f"{called} failed: {error}", error, service) from error
    if not response.text:
        raise ToolFailure(f"{called} {endpoint} returned no answer. Rephrase the question.", reason="no_answer")
    return response.text


def _client(endpoint: ModelEndpoint) -> ModelClient:
    asyncio.run(anyio.lowlevel.checkpoint())  # load anyio's backend here, not in the event loop at the first connection
    return ModelClient(endpoint, repeats=False)
