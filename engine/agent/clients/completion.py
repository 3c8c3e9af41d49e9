"""`ModelCompletion` implements the port `engine.contract.ports.LlmClient` with the configured chat model."""

import asyncio
import importlib

from engine.agent.clients.endpoint import ModelEndpoint


class ModelCompletion:
    """Sends single prompts to a model. It keeps no connection open between prompts."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint

    async def complete(self, prompt: str, *, system: str = "", max_tokens: int | None = None) -> str:
        """Return the model's answer to one prompt.

        Raises:
            ToolFailure: The model failed, or returned no answer.
        """
        # This import takes a second and reads certificates from disk, so it must not run in the event loop.
        asking = await asyncio.to_thread(importlib.import_module, "engine.agent.clients.single_prompt")
        answer: str = await asking.ask(self._endpoint, prompt, system=system, max_tokens=max_tokens)
        return answer
