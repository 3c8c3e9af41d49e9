"""`Redactor`: replaces the values of secrets by their placeholders, in text, JSON values, bytes and streams."""

import re
from collections.abc import Iterable, Mapping
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
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            changed = {self.data(key): self.data(each) for key, each in value.items()}
            return changed if changed != value else value
        if isinstance(value, list | tuple):
            items = [self.data(each) for each in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, bytes):
            return self.raw(value)
        return value

    def stream(self) -> StreamReplacer:
        """Return a redactor for one stream of bytes."""
        return StreamReplacer(self._needles, self._shown_bytes)

    def _shown(self, match: re.Match[str]) -> str:
        return self._placeholders[(match.lastindex or 1) - 1]

    def _shown_bytes(self, match: re.Match[bytes]) -> bytes:
        return self._placeholders[(match.lastindex or 1) - 1].encode()
