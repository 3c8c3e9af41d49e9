"""Converts tool names to names that providers allow, and back: `weather.today` becomes `weather__today`.

OpenAI and Anthropic allow letters, digits, ``_`` and ``-``, at most 64; Gemini requires a letter or ``_`` first. The
names fit all providers, so that a conversation stays valid if it is continued with another model. Sources: the `name`
fields of https://platform.openai.com/docs/api-reference/chat/create, https://docs.anthropic.com/en/api/messages and
https://ai.google.dev/api/caching#FunctionDeclaration.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

LONGEST = 64

_TAKEN_AS_IT_IS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST = 8  # hexadecimal digits; enough to distinguish the tools of one list


class ProviderNames:
    """Converts the names of one list of tools. The order of the list does not affect the result.

    Allowed names stay unchanged. In all other names, each dot becomes ``__`` and every other invalid character ``_``.
    If two names would clash, or the result is too long, a digest of the name is appended.
    """

    def __init__(self, names: Iterable[str]) -> None:
        unique = set(names)
        wanted = {name: _form(name) for name in unique}
        claims = Counter(wanted.values())
        self._there = {
            name: form if len(form) <= LONGEST and (name == form or claims[form] == 1) else _with_digest(name, form)
            for name, form in wanted.items()
        }
        self._back = {form: name for name, form in self._there.items()}

    def to_provider(self, name: str) -> str:
        """Return the provider's form of a tool's name. A name that is not in the list never gets a digest."""
        return self._there.get(name) or _form(name)[:LONGEST]

    def from_provider(self, called: str) -> str:
        """Return the tool's name. An unknown name is returned unchanged; the pipeline will reject the call."""
        return self._back.get(called, called)


def _form(name: str) -> str:
    if _TAKEN_AS_IT_IS.match(name):
        return name
    form = _NOT_ALLOWED.sub("_", name.replace(".", "__"))
    return form if form[:1].isalpha() or form[:1] == "_" else f"_{form}"


def _with_digest(name: str, form: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{form[: LONGEST - _DIGEST - 1]}-{digest}"
