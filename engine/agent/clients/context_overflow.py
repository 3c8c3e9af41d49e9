"""Recognizes a provider's error that says that a request has too many tokens for the model's window (LOOP-6)."""

import re
from dataclasses import dataclass

# What providers and servers say, in lower case: OpenAI and vLLM, Anthropic, Google, llama.cpp, Mistral and others.
_SAYS = re.compile(
    r"context[ _-]?length|context[ _-]?window|maximum context|context[ _-]?size|exceed_context|prompt is too long"
    r"|input is too long|input token count|too many (?:input |prompt )?tokens|reduce the length of the messages"
    r"|input length and .*exceed"
)
_NUMBER = r"(\d[\d,_]{2,})"
_LIMITS = (  # where the error names the size of the window
    re.compile(rf"(?:maximum context length|context (?:length|window|size))\D{{0,40}}{_NUMBER}"),
    re.compile(rf"> {_NUMBER} maximum"),
    re.compile(rf"maximum number of tokens\D{{0,30}}{_NUMBER}"),
    re.compile(rf"\"?n_ctx\"?\D{{1,5}}{_NUMBER}"),
    re.compile(rf"(?:limit|maximum)\D{{0,20}}{_NUMBER}"),
)
_STATUSES = frozenset({400, 413, 422, 500})  # some servers answer 500


@dataclass(frozen=True, slots=True)
class ContextOverflow:
    """The model's window is too small for the request.

    Attributes:
        window: The size of the window in tokens as the provider named it; 0 if it did not.
    """

    window: int = 0


def context_overflow(error: BaseException) -> ContextOverflow | None:
    """Return what the provider said about the window, or None if the error is about something else."""
    current: BaseException | None = error
    while current is not None:
        status = getattr(current, "status_code", None)
        if status in _STATUSES:
            said = f"{getattr(current, 'body', '')} {current}".lower()
            if _SAYS.search(said):
                found = next((match for limit in _LIMITS if (match := limit.search(said))), None)
                return ContextOverflow(int(re.sub(r"\D", "", found.group(1))) if found else 0)
        current = current.__cause__
    return None
