"""`ModelVision`: a model that sees, as the port `engine.contract.context.VisionClient`."""

from engine.agent.endpoint import ModelEndpoint
from engine.agent.provider_failure import provider_failure
from engine.contract.failure import ToolFailure


class ModelVision:
    """Asks one model about images. Holds nothing open between questions."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint

    async def describe(self, prompt: str, images: list[tuple[bytes, str]]) -> str:
        """Answer `prompt` about the images, given as (bytes, media type). Raises ToolFailure."""
        from pydantic_ai.messages import BinaryContent, ModelRequest, UserPromptPart  # noqa: PLC0415 -- takes seconds

        from engine.agent.model import ModelClient, ModelError  # noqa: PLC0415 -- loads pydantic_ai too

        pictures = [BinaryContent(data=data, media_type=media_type) for data, media_type in images]
        question = ModelRequest(parts=[UserPromptPart(content=[prompt, *pictures])])
        try:
            async with ModelClient(self._endpoint, repeats=False) as model:
                response = await model.ask([question])
        except ModelError as error:
            raise provider_failure(f"The vision model failed: {error}", error, "vision_model") from error
        if not response.text:
            raise ToolFailure(f"The vision model {self._endpoint} gave no answer. Ask differently.", reason="no_answer")
        return response.text
