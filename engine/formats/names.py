"""Names of tools as providers allow them, there and back: `weather.today` is called `weather__today` by a model.

OpenAI and Anthropic take letters, digits, ``_`` and ``-``, 64 at most; Gemini wants a letter or ``_`` first. One form
that all of them take keeps a conversation valid when its model changes. Sources: the `name` fields of
https://platform.openai.com/docs/api-reference/chat/create, https://docs.anthropic.com/en/api/messages and
https://ai.google.dev/api/caching#FunctionDeclaration.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

LONGEST = 64

_TAKEN_AS_IT_IS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST = 8  # hexadecimal digits: enough to tell the tools of one list apart


class ProviderNames:
    """The names of one list of tools. The same names give the same forms, in whatever order they come.

    A name that is allowed stays as it is. Of others each dot becomes ``__`` and anything else that is not allowed
    ``_``; where two would be called the same, or the result is too long, a digest of the name tells them apart.
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
        """As the provider is told. A name of no tool of the list (out of an older history) gets its plain form."""
        return self._there.get(name) or _form(name)[:LONGEST]

    def from_provider(self, called: str) -> str:
        """The tool that a model means; what it made up comes back as it is, for the pipeline to answer."""
        return self._back.get(called, called)


def _form(name: str) -> str:
    if _TAKEN_AS_IT_IS.match(name):
        return name
    form = _NOT_ALLOWED.sub("_", name.replace(".", "__"))
    return form if form[:1].isalpha() or form[:1] == "_" else f"_{form}"


def _with_digest(name: str, form: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{form[: LONGEST - _DIGEST - 1]}-{digest}"
