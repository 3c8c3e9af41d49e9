"""Converts the models in the settings to the clients of `engine.agent`."""

from engine.agent.clients.completion import ModelCompletion
from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.images import OpenAIImages
from engine.agent.clients.txt2img import Txt2ImgImages
from engine.agent.clients.vision import ModelVision
from engine.app.settings import Endpoint, ImageClientSettings, ModelSettings, Settings
from engine.contract.context import ImageClient
from engine.contract.failure import ConfigError


def endpoint_of(endpoint: Endpoint) -> ModelEndpoint:
    """Convert a configured endpoint to the class that the clients of models take.

    Raises:
        ConfigError: The endpoint names no model.
    """
    if endpoint.name is None:
        raise ConfigError(
            "model: none is configured. Set name (and base_url or provider, and api_key) in [model] of config.toml, "
            "or KNACKBOX_MODEL_NAME and KNACKBOX_MODEL_BASE_URL."
        )
    key = endpoint.api_key.get_secret_value() if endpoint.api_key is not None else None
    native = not isinstance(endpoint, ModelSettings) or endpoint.native_tools
    return ModelEndpoint(endpoint.provider, endpoint.name, endpoint.base_url, key, endpoint.timeout_s, native)


def completion_of(settings: Settings) -> ModelCompletion | None:
    """Return a client for single prompts to the chat model; None if no chat model is configured."""
    return ModelCompletion(endpoint_of(settings.model)) if settings.model.configured else None


def vision_of(settings: Settings) -> ModelVision | None:
    endpoint = settings.vision_endpoint
    return ModelVision(endpoint_of(endpoint)) if endpoint is not None else None


def images_of(settings: Settings) -> dict[str, ImageClient]:
    """Return the image clients by name, with the client of `[image]` first.

    Raises:
        ConfigError: The provider of a client is not supported.
    """
    return {name: _image_client(name, client) for name, client in settings.image_clients.items()}


def _image_client(name: str, client: ImageClientSettings) -> ImageClient:
    if client.protocol == "txt2img":
        return Txt2ImgImages(
            client.base_url or "",
            model=client.name or "",
            api_key=client.api_key.get_secret_value() if client.api_key is not None else "",
            sizes=client.sizes,
            timeout_s=client.timeout_s,
        )
    if client.provider != "openai":
        raise ConfigError(
            f"The image client {name}: provider {client.provider!r} is not supported. "
            'Use an OpenAI-compatible endpoint, or protocol = "txt2img".'
        )
    return OpenAIImages(endpoint_of(client), client.sizes)
