"""`ModelEndpoint`: where a model is served and what it is called. Naming one does not load a client."""

from dataclasses import dataclass, field
from typing import Literal

Provider = Literal["openai", "anthropic", "google"]


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """One model. `openai` with a `base_url` is any OpenAI-compatible server.

    api_key: None leaves it to the provider's own environment variable, which is never used for another `base_url`.
    timeout_s: of one request, seconds.
    native_tools: False for a model without tool calls of its own; it is told of the tools in words and calls in text.
    """

    provider: Provider
    name: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 120.0
    native_tools: bool = True

    def __str__(self) -> str:
        return f"{self.name} at {self.base_url}" if self.base_url else f"{self.name} of {self.provider}"
