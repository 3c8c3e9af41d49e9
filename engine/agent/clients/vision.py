"""`ModelVision`: a vision model that implements `engine.contract.context.VisionClient`."""

import asyncio
import importlib

from engine.agent.clients.endpoint import ModelEndpoint


class ModelVision:
    """Asks one model about images. It keeps no connection open between questions."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint

    async def describe(self, prompt: str, images: list[tuple[bytes, str]]) -> str:
        """Answer `prompt` about the images, given as (bytes, media type).

        Raises:
            ToolFailure: The model failed, or returned no answer.
        """
        # This import takes a second and reads certificates from disk, so it must not run in the event loop.
        asking = await asyncio.to_thread(importlib.import_module, "engine.agent.clients.image_question")
        answer: str = await asking.ask(self._endpoint, prompt, images)
        return answer
