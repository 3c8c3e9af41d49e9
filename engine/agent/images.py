"""`OpenAIImages`: an OpenAI-compatible image endpoint, as the port `engine.contract.context.ImageClient`.

Source: https://platform.openai.com/docs/api-reference/images/create. Servers differ in what they accept: the
`gpt-image` models take `output_format` and always answer in base64; others take `response_format`.
"""

import base64
import binascii
from typing import Any

from engine.agent.endpoint import ModelEndpoint
from engine.contract.failure import FailureClass, ToolFailure

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
BASE64_ONLY = "gpt-image"


class OpenAIImages:
    """Draws with one model. Holds nothing open between images."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint

    async def generate(self, prompt: str, size: str) -> bytes:
        """One PNG. size: such as ``"1024x1024"``, as the model takes it. Raises ToolFailure."""
        from openai import AsyncOpenAI, OpenAIError  # noqa: PLC0415 -- takes a second to import

        endpoint = self._endpoint
        # A server of one's own may need no key, and must not be sent the one of OPENAI_API_KEY.
        key = endpoint.api_key or ("no-key-configured" if endpoint.base_url else None)
        options: dict[str, Any] = (
            {"output_format": "png"} if endpoint.name.startswith(BASE64_ONLY) else {"response_format": "b64_json"}
        )
        try:
            async with AsyncOpenAI(base_url=endpoint.base_url, api_key=key, timeout=endpoint.timeout_s) as client:
                answer = await client.images.generate(model=endpoint.name, prompt=prompt, size=size, n=1, **options)
        except OpenAIError as error:
            status = getattr(error, "status_code", None)
            raise ToolFailure(
                f"The image model {endpoint} could not draw: {' '.join(str(error).split())[:500]} "
                "Change the prompt or the size, or check [image] in config.toml.",
                failure_class=FailureClass.DIAGNOSTIC if status in {400, 422} else FailureClass.FATAL,
                reason="image_model",
            ) from error
        return png_of(answer.data[0].b64_json if answer.data else None, endpoint)


def png_of(encoded: str | None, endpoint: ModelEndpoint) -> bytes:
    """The picture of an answer. Raises ToolFailure when it is missing, broken or not a PNG."""
    try:
        picture = base64.b64decode(encoded or "", validate=True)
    except binascii.Error:
        picture = b""
    if not picture.startswith(PNG_SIGNATURE):
        what = f"{len(picture)} bytes that are not a PNG" if picture else "no base64 picture (b64_json)"
        raise ToolFailure(
            f"The image model {endpoint} answered with {what}. Configure one that returns PNG in base64.",
            failure_class=FailureClass.FATAL,
            reason="image_model",
        )
    return picture
