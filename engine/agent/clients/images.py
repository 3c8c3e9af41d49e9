"""`OpenAIImages` implements `engine.contract.context.ImageClient` with an OpenAI-compatible image endpoint.

Source: https://platform.openai.com/docs/api-reference/images/create. Servers differ in what they accept: the
`gpt-image` models take `output_format` and always answer in base64; others take `response_format`.
"""

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Any

from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.provider_failure import provider_failure
from engine.contract.failure import FailureClass, ToolFailure

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
BASE64_ONLY = "gpt-image"
_NEWEST = ("1024x1024", "1536x1024", "1024x1536")
_SIZES = {
    "dall-e-3": ("1024x1024", "1792x1024", "1024x1792"),
    "dall-e-2": ("1024x1024", "512x512", "256x256"),
}


class OpenAIImages:
    """Generates images with one model. It keeps no connection open between images."""

    def __init__(self, endpoint: ModelEndpoint, sizes: tuple[str, ...] = ()) -> None:
        """Create the client.

        Args:
            sizes: The accepted sizes. If empty, the sizes known for this model are used.
        """
        self._endpoint = endpoint
        self._sizes = sizes or sizes_of(endpoint.name)

    @property
    def sizes(self) -> tuple[str, ...]:
        return self._sizes

    async def generate(self, prompt: str, size: str) -> bytes:
        """Generate an image and return it as a PNG file.

        Args:
            prompt: A description of the image.
            size: Width x height in pixels, such as ``"1024x1024"``.

        Raises:
            ToolFailure: The model failed, or returned no PNG.
        """
        # Importing the client takes a second and reads certificates from disk, so it must not run in the event loop.
        client = await asyncio.to_thread(_client, self._endpoint)
        from openai import OpenAIError  # noqa: PLC0415 -- loaded above

        endpoint = self._endpoint
        options: dict[str, Any] = (
            {"output_format": "png"} if endpoint.name.startswith(BASE64_ONLY) else {"response_format": "b64_json"}
        )
        try:
            async with client:
                answer = await client.images.generate(model=endpoint.name, prompt=prompt, size=size, n=1, **options)
        except OpenAIError as error:
            raise could_not_draw(str(endpoint), error) from error
        return png_of(answer.data[0].b64_json if answer.data else None, str(endpoint))


def _client(endpoint: ModelEndpoint) -> "AsyncOpenAI":
    import anyio.lowlevel  # noqa: PLC0415 -- only needed together with the next import
    from openai import AsyncOpenAI  # noqa: PLC0415 -- takes a second

    asyncio.run(anyio.lowlevel.checkpoint())  # load anyio's backend here, not in the event loop at the first connection
    # A local server may need no key, and must not receive the key in OPENAI_API_KEY.
    key = endpoint.api_key or ("no-key-configured" if endpoint.base_url else None)
    # The client does not retry, because the engine's recovery does.
    return AsyncOpenAI(base_url=endpoint.base_url, api_key=key, timeout=endpoint.timeout_s, max_retries=0)


def could_not_draw(where: str, error: Exception) -> ToolFailure:
    said = " ".join(str(error).split())[:500] or type(error).__name__
    text = (
        f"The image model {where} could not draw: {said} Change the prompt or the size, or check the model's settings."
    )
    return provider_failure(text, error, "image_model")


def sizes_of(model: str) -> tuple[str, ...]:
    """Return the sizes that an OpenAI model accepts. For an unknown model, return those of the newest model."""
    return next((sizes for prefix, sizes in _SIZES.items() if model.startswith(prefix)), _NEWEST)


def png_of(encoded: str | None, where: str) -> bytes:
    """Decode the image of a response.

    Raises:
        ToolFailure: The image is missing, damaged or not a PNG.
    """
    try:
        picture = base64.b64decode(encoded or "", validate=True)
    except binascii.Error:
        picture = b""
    if not picture.startswith(PNG_SIGNATURE):
        what = f"{len(picture)} bytes that are not a PNG" if picture else "no base64 picture (b64_json)"
        raise ToolFailure(
            f"The image model {where} answered with {what}. Configure one that returns PNG images in base64.",
            failure_class=FailureClass.FATAL,
            reason="image_model",
        )
    return picture
