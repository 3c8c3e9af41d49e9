"""Asks a vision model about images.

Importing this module takes seconds, like `engine.agent.model`; `engine.agent.vision` imports it for the first question.
"""

import asyncio

import anyio.lowlevel
from pydantic_ai.messages import BinaryContent, ModelRequest, UserPromptPart

from engine.agent.endpoint import ModelEndpoint
from engine.agent.model import ModelClient, ModelError
from engine.agent.provider_failure import provider_failure
from engine.contract.failure import ToolFailure


async def ask(endpoint: ModelEndpoint, prompt: str, images: list[tuple[bytes, str]]) -> str:
    """Return the answer of the model as text.

    Raises:
        ToolFailure: The model failed, or returned no answer.
    """
    question = await asyncio.to_thread(_question, prompt, images)
    try:
        async with await asyncio.to_thread(_client, endpoint) as model:
            response = await model.ask([question])
    except ModelError as error:
        raise provider_failure(f"The vision model failed: {error}", error, "vision_model") from error
    if not response.text:
        raise ToolFailure(f"The vision model {endpoint} returned no answer. Rephrase the question.", reason="no_answer")
    return response.text


def _client(endpoint: ModelEndpoint) -> ModelClient:
    asyncio.run(anyio.lowlevel.checkpoint())  # load anyio's backend here, not in the event loop at the first connection
    return ModelClient(endpoint, repeats=False)


def _question(prompt: str, images: list[tuple[bytes, str]]) -> ModelRequest:
    pictures = [BinaryContent(data=data, media_type=media_type) for data, media_type in images]
    return ModelRequest(parts=[UserPromptPart(content=[prompt, *pictures])])
