"""`ModelEndpoint`: the name and the server of a model. Importing this module loads no model client."""

from dataclasses import dataclass, field
from typing import Literal

Provider = Literal["openai", "anthropic", "google"]


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """The name and the server of a model. `openai` with a `base_url` stands for any OpenAI-compatible server.

    Attributes:
        api_key: If None, the key in the provider's environment variable is used, unless `base_url` is set.
        timeout_s: Time limit of one request, in seconds.
        native_tools: False for a model without native tool calls. Tools are then described and called in text.
    """

    provider: Provider
    name: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 120.0
    native_tools: bool = True

    def __str__(self) -> str:
        return f"{self.name} at {self.base_url}" if self.base_url else f"{self.name} of {self.provider}"
