"""`Txt2ImgImages`: an `ImageClient` for local Stable Diffusion servers with the `txt2img` protocol.

Source: https://github.com/AUTOMATIC1111/stable-diffusion-webui/wiki/API. Forge, SD.Next and others implement this
protocol.
"""

import base64
import json
from typing import Any

from engine.agent.clients.images import could_not_draw, png_of
from engine.contract.failure import FailureClass, ToolFailure

# The sizes that SDXL was trained on: Podell et al., "SDXL", 2023, appendix I. At other
# sizes, images are cropped or repeat their subject.
SDXL_SIZES = (
    "1024x1024",
    "1152x896",
    "896x1152",
    "1216x832",
    "832x1216",
    "1344x768",
    "768x1344",
    "1536x640",
    "640x1536",
)
MOST_BYTES = 64 << 20  # limit for a response: one image in base64, and the parameters that it was generated with


class Txt2ImgImages:
    """Generates images with one server. It keeps no connection open between images."""

    def __init__(
        self,
        base_url: str,
        *,
        model: str = "",
        api_key: str = "",
        sizes: tuple[str, ...] = (),
        timeout_s: float = 120.0,
    ) -> None:
        """Create the client. It connects only when it generates an image.

        Args:
            base_url: The URL of the server.
            model: A checkpoint of the server; "" for the one that is loaded.
            api_key: Either ``user:password`` for basic authentication, or a bearer token.
            sizes: The accepted sizes. If empty, the sizes of SDXL are used.
            timeout_s: Time limit of one request, in seconds.
        """
        self._url = f"{base_url.rstrip('/')}/sdapi/v1/txt2img"
        self._model = model
        self._api_key = api_key
        self._sizes = sizes or SDXL_SIZES
        self._timeout_s = timeout_s

    @property
    def sizes(self) -> tuple[str, ...]:
        return self._sizes

    async def generate(self, prompt: str, size: str) -> bytes:
        """Generate an image and return it as a PNG file.

        Args:
            prompt: A description of the image.
            size: Width x height in pixels, such as ``"1024x1024"``.

        Raises:
            ToolFailure: The server failed, or returned no PNG.
        """
        import httpx  # noqa: PLC0415 -- takes a third of a second to import

        width, height = (int(part) for part in size.split("x"))
        asked: dict[str, Any] = {"prompt": prompt, "width": width, "height": height, "batch_size": 1, "n_iter": 1}
        if self._model:
            asked["override_settings"] = {"sd_model_checkpoint": self._model}
        options: dict[str, Any] = {"timeout": self._timeout_s, "trust_env": False, "follow_redirects": False}
        try:
            async with (
                httpx.AsyncClient(**options) as client,
                client.stream("POST", self._url, json=asked, headers=self._headers()) as response,
            ):
                body = await self._body(response.aiter_bytes())
                if not response.is_success:
                    said = " ".join(body[:500].decode("utf-8", "replace").split())
                    text = f"status {response.status_code}: {said or response.reason_phrase}."
                    raise httpx.HTTPStatusError(text, request=response.request, response=response)
        except httpx.HTTPError as error:
            raise could_not_draw(self._url, error) from error
        return png_of(_first_image(body), self._url)

    def _headers(self) -> dict[str, str]:
        if not self._api_key:
            return {}
        if ":" in self._api_key:
            return {"authorization": f"Basic {base64.b64encode(self._api_key.encode()).decode()}"}
        return {"authorization": f"Bearer {self._api_key}"}

    async def _body(self, chunks: Any) -> bytes:
        body = bytearray()
        async for chunk in chunks:
            body += chunk
            if len(body) > MOST_BYTES:
                raise ToolFailure(
                    f"The image model {self._url} answered with over {MOST_BYTES >> 20} MiB. Ask for a smaller size.",
                    failure_class=FailureClass.DIAGNOSTIC,
                    reason="image_model",
                )
        return bytes(body)


def _first_image(body: bytes) -> str | None:
    try:
        images = json.loads(body)["images"]
        first = images[0]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return first.rpartition(",")[2] if isinstance(first, str) else None  # some servers send a data URL
