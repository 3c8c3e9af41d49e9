"""The models of the settings, as the clients of `engine.agent` take them."""

from engine.agent.endpoint import ModelEndpoint
from engine.agent.images import OpenAIImages
from engine.agent.vision import ModelVision
from engine.app.settings import Endpoint, ModelSettings, Settings
from engine.contract.failure import ConfigError


def endpoint_of(endpoint: Endpoint) -> ModelEndpoint:
    """A configured endpoint as the clients take it. Raises ConfigError when it has no name."""
    if endpoint.name is None:
        raise ConfigError(
            "model: none is configured. Set name (and base_url or provider, and api_key) in [model] of config.toml, "
            "or KNACKBOX_MODEL_NAME and KNACKBOX_MODEL_BASE_URL."
        )
    key = endpoint.api_key.get_secret_value() if endpoint.api_key is not None else None
    native = not isinstance(endpoint, ModelSettings) or endpoint.native_tools
    return ModelEndpoint(endpoint.provider, endpoint.name, endpoint.base_url, key, endpoint.timeout_s, native)


def vision_of(settings: Settings) -> ModelVision | None:
    endpoint = settings.vision_endpoint
    return ModelVision(endpoint_of(endpoint)) if endpoint is not None else None


def images_of(settings: Settings) -> OpenAIImages | None:
    """Raises ConfigError for a provider whose image interface is another one."""
    endpoint = settings.image_endpoint
    if endpoint is None:
        return None
    if endpoint.provider != "openai":
        raise ConfigError(f"image: provider {endpoint.provider!r} is not supported. Use an OpenAI-compatible endpoint.")
    return OpenAIImages(endpoint_of(endpoint))
