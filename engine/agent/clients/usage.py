"""`TokenUsage`: the tokens of a request as its provider reported them, and what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_ai.messages import ModelResponse


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in `currency` per million tokens.

    Attributes:
        input: Tokens of requests that the provider has not read from its cache.
        output: Tokens of responses.
        cache_read: Tokens of requests that the provider has read from its cache.
        cache_write: Tokens of requests that the provider has written to its cache.
    """

    input: float
    output: float
    cache_read: float
    cache_write: float
    currency: str = ""


Prices = Mapping[str, Price]  # by the name of the model


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What one request used.

    Attributes:
        tokens: Input and output tokens, without `cached`.
        cached: Input tokens that the provider has read from its cache.
        cost: In the currency of the model's price; None if no price is configured or no usage was reported.
    """

    tokens: int = 0
    cached: int = 0
    cost: float | None = None


def usage_of(response: ModelResponse, price: Price | None, *, otherwise: int) -> TokenUsage:
    """Return the usage of a request.

    Args:
        response: The response, with the usage that the provider reported.
        price: The price of the model, if it is configured.
        otherwise: The estimated tokens, which are used if the provider reported none.
    """
    used = response.usage
    if not used.input_tokens and not used.output_tokens:
        return TokenUsage(otherwise)
    cached = min(used.cache_read_tokens, used.input_tokens)
    written = min(used.cache_write_tokens, used.input_tokens - cached)
    tokens = used.input_tokens - cached + used.output_tokens
    if price is None:
        return TokenUsage(tokens, cached)
    fresh = used.input_tokens - cached - written
    cost = fresh * price.input + used.output_tokens * price.output
    cost += cached * price.cache_read + written * price.cache_write
    return TokenUsage(tokens, cached, cost / 1_000_000)
