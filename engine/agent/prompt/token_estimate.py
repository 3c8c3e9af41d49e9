"""Estimates how many tokens a request has, before its provider reports it (LOOP-6).

The rule: four ASCII characters, or one other character, are a token, and each part of a message adds four. It is close
for English text, and somewhat too high for most other scripts. `RunState.tokens_per_estimated` corrects it by what the
provider reported for the latest request.
"""

import json
from collections.abc import Iterable, Sequence

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelRequestPart, ModelResponsePart

from engine.contract.spec import ToolSpec

CHARACTERS_PER_TOKEN = 4  # of ASCII text
PER_PART = 4  # tokens that separate a part of a message from the next


def text_tokens(text: str) -> int:
    """Return the estimated tokens of a text, rounded up."""
    if text.isascii():
        return -(-len(text) // CHARACTERS_PER_TOKEN)
    plain = len(text.encode("ascii", "ignore"))
    return len(text) - plain - (-plain // CHARACTERS_PER_TOKEN)


def part_tokens(part: ModelRequestPart | ModelResponsePart) -> int:
    """Return the estimated tokens of one part of a message."""
    content = getattr(part, "content", None)
    given = getattr(part, "args", None)
    texts = [content] if isinstance(content, str) else [each for each in content or () if isinstance(each, str)]
    if given:
        texts.append(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))
    return PER_PART + sum(text_tokens(each) for each in texts)


def message_tokens(message: ModelMessage) -> int:
    """Return the estimated tokens of one message, without the instructions."""
    return sum(part_tokens(part) for part in message.parts)


def history_tokens(history: Sequence[ModelMessage]) -> int:
    """Return the estimated tokens of messages, with the instructions of the latest request."""
    told = next((each.instructions for each in reversed(history) if isinstance(each, ModelRequest)), None)
    return sum(message_tokens(each) for each in history) + text_tokens(told or "")


class ToolSizes:
    """Estimates the tokens of tool definitions, and remembers them, because the same tools are listed in every turn."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ToolSpec, int]] = {}

    def tokens(self, specs: Iterable[ToolSpec]) -> int:
        """Return the estimated tokens of the definitions of these tools."""
        known = {id(spec): self._known.get(id(spec)) or (spec, _spec_tokens(spec)) for spec in specs}
        self._known = known  # only those of the latest turn are kept
        return sum(size for _, size in known.values())


def _spec_tokens(spec: ToolSpec) -> int:
    schema = json.dumps(dict(spec.parameters), ensure_ascii=False, default=str)
    return PER_PART + text_tokens(spec.name) + text_tokens(spec.description) + text_tokens(schema)
