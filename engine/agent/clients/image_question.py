"""Asks a vision model about images.

Importing this module takes seconds, like `engine.agent.clients.model`; `engine.agent.clients.vision` imports it when
the first question is asked.
"""

import asyncio

from pydantic_ai.messages import BinaryContent

from engine.agent.clients import single_prompt
from engine.agent.clients.endpoint import ModelEndpoint


async def ask(endpoint: ModelEndpoint, prompt: str, images: list[tuple[bytes, str]]) -> str:
    """Return the answer of the model as text.

    Raises:
        ToolFailure: The model failed, or returned no answer.
    """
    pictures = await asyncio.to_thread(_pictures, images)
    return await single_prompt.ask(
        endpoint, prompt, content=pictures, called="The vision model", service="vision_model"
    )


def _pictures(images: list[tuple[bytes, str]]) -> tuple[BinaryContent, ...]:
    return tuple(BinaryContent(data=data, media_type=media_type) for data, media_type in images)
