"""`Redactor`: replaces the values of secrets by their placeholders, in text, JSON values, bytes and streams."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sandbox.secrets.encodings import encodings
from sandbox.secrets.replacing import Needles, StreamReplacer
from sandbox.secrets.secret import Secret


class Redactor:
    """Replaces each value, and the common encodings of it (`encodings`), by the placeholder. Case is ignored.

    Where a value is part of another one, the longer value is recognized.
    """

    def __init__(self, secrets: Iterable[Secret]) -> None:
        """Compile the values.

        Args:
            secrets: The secrets, at least one.
        """
        known = sorted(secrets, key=lambda each: -len(each.value))
        forms = [encodings(secret.value) for secret in known]
        self._placeholders = [secret.placeholder for secret in known]
        self._lowered = frozenset(form.lower() for group in forms for form in group)
        self._text = re.compile("|".join(f"({'|'.join(map(re.escape, group))})" for group in forms), re.IGNORECASE)
        self._needles = Needles([[form.encode() for form in group] for group in forms], ignore_case=True)

    def text(self, text: str) -> str:
        """Return the text with placeholders."""
        lowered = text.lower()
        if not any(form in lowered for form in self._lowered):  # much faster than the pattern
            return text
        return self._text.sub(self._shown, text)

    def raw(self, data: bytes) -> bytes:
        """Return the bytes with placeholders. Values are expected in UTF-8."""
        return self._needles.replace(data, self._shown_bytes)

    def data(self, value: Any) -> Any:
        """Return a JSON value with placeholders in its texts and keys. Parts without values are not copied."""
        return _mapped(value, self.text)

    def masked(self, value: Any) -> Any:
        """Return a JSON value with values overwritten by texts of the same length, so that offsets stay valid."""
        return _mapped(value, self._masked_text)

    def stream(self) -> StreamReplacer:
        """Return a redactor for one stream of bytes."""
        return StreamReplacer(self._needles, self._shown_bytes)

    def _masked_text(self, text: str) -> str:
        lowered = text.lower()
        if not any(form in lowered for form in self._lowered):
            return text
        return self._text.sub(lambda match: self._shown(match)[: len(match[0])].ljust(len(match[0]), "*"), text)

    def _shown(self, match: re.Match[str]) -> str:
        return self._placeholders[(match.lastindex or 1) - 1]

    def _shown_bytes(self, match: re.Match[bytes]) -> bytes:
        return self._placeholders[(match.lastindex or 1) - 1].encode()


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        items = [(key, each, _mapped(key, change), _mapped(each, change)) for key, each in value.items()]
        if all(key is new_key and each is new for key, each, new_key, new in items):
            return value
        return {new_key: new for _, _, new_key, new in items}
    if isinstance(value, list | tuple):
        changed = [_mapped(each, change) for each in value]
        if all(new is old for new, old in zip(changed, value, strict=True)):
            return value
        return changed if isinstance(value, list) else tuple(changed)
    return value
