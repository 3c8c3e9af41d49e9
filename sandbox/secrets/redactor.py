"""`Redactor`: replaces the values of secrets by their placeholders, in text, JSON values, bytes and streams."""

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
        self._lowered = tuple({form.lower(): None for group in forms for form in group})
        self._shortest = min(len(form) for group in forms for form in group)  # some texts are longer in lower case
        self._needles = Needles(map(_in_bytes, forms), ignore_case=True)

    def text(self, text: str) -> str:
        """Return the text with placeholders."""
        return self._replaced(text, self._shown) if self._may_contain(text) else text

    def raw(self, data: bytes) -> bytes:
        """Return the bytes with placeholders. Values are expected in UTF-8."""
        return self._needles.replace(data, self._shown)

    def data(self, value: Any) -> Any:
        """Return a JSON value with placeholders in its texts and keys. Parts without values are not copied."""
        return _mapped(value, self.text)

    def masked(self, value: Any) -> Any:
        """Return a JSON value with values overwritten by texts of the same length, so that offsets stay valid."""
        return _mapped(value, self._masked_text)

    def stream(self) -> StreamReplacer:
        """Return a redactor for one stream of bytes."""
        return StreamReplacer(self._needles, self._shown)

    def _may_contain(self, text: str) -> bool:
        if len(text) < self._shortest:
            return False
        lowered = text.lower()
        return any(form in lowered for form in self._lowered)

    def _masked_text(self, text: str) -> str:
        return self._replaced(text, self._masked) if self._may_contain(text) else text

    def _replaced(self, text: str, replacement: Callable[[int, bytes], bytes]) -> str:
        return self._needles.replace(text.encode("utf-8", "surrogatepass"), replacement).decode(
            "utf-8", "surrogatepass"
        )

    def _shown(self, number: int, _: bytes) -> bytes:
        return self._placeholders[number].encode()

    def _masked(self, number: int, found: bytes) -> bytes:
        length = len(found.decode())
        return self._placeholders[number][:length].ljust(length, "*").encode()


def _in_bytes(forms: Iterable[str]) -> list[bytes]:
    """Return the forms in UTF-8, in upper and lower case too if bytes that are not ASCII have another case."""
    return [
        each.encode() for form in forms for each in ((form,) if form.isascii() else (form, form.upper(), form.lower()))
    ]


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
