"""`Substitution`: puts the values of secrets into one request, and placeholders into its response."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from urllib.parse import quote, quote_plus

from sandbox.secrets.redactor import Redactor
from sandbox.secrets.replacing import Needles, Replacement, StreamReplacer
from sandbox.secrets.secret import Secret

_BASIC = re.compile(rb"(?i)(basic[ \t]+)([A-Za-z0-9+/=]+)[ \t]*")
_MEDIA_TYPE = re.compile(rb"[^; \t]*")
Fields = list[tuple[bytes, bytes]]
Encode = Callable[[str], str]


class PlaceholderInLongBody(ValueError):
    """A body that is forwarded unchanged contains a placeholder."""


class Substitution:
    """The secrets of one destination. Compiled once, used for every connection to it."""

    def __init__(self, secrets: Sequence[Secret]) -> None:
        """Compile the placeholders and the values.

        Args:
            secrets: The secrets that belong to the destination, at least one.
        """
        self._values = [secret.value for secret in secrets]
        self._needles = Needles([[secret.placeholder.encode()] for secret in secrets])
        self.redactor = Redactor(secrets)

    def target(self, target: bytes) -> bytes:
        """Return the target of a request with values, percent-encoded."""
        return self._needles.replace(target, self._value(lambda value: quote(value, safe="")))

    def field(self, name: bytes, value: bytes) -> bytes:
        """Return the value of a field with the values of secrets, also within the credentials of basic authentication.

        Args:
            name: The name of the field.
            value: The value as the program sent it.
        """
        basic = _BASIC.fullmatch(value) if name.lower() == b"authorization" else None
        if basic is not None:
            try:
                plain = base64.b64decode(basic[2], validate=True)
            except binascii.Error:
                return value
            filled = self._needles.replace(plain, self._value(str))
            return value if filled is plain else basic[1] + base64.b64encode(filled)
        return self._needles.replace(value, self._value(str))

    def body(self, body: bytes, content_type: bytes) -> bytes:
        """Return a whole body with values, encoded as its content type needs."""
        return self._needles.replace(body, self._value(_encoder(content_type)))

    def body_stream(self, content_type: bytes) -> StreamReplacer:
        """Return what substitutes in a body that arrives in chunks."""
        return StreamReplacer(self._needles, self._value(_encoder(content_type)))

    def refusing_stream(self) -> StreamReplacer:
        """Return what passes a body on unchanged, and raises PlaceholderInLongBody if it contains a placeholder."""

        def refuse(_: int, __: bytes) -> bytes:
            raise PlaceholderInLongBody

        return StreamReplacer(self._needles, refuse)

    def redacted(self, fields: Fields) -> Fields:
        """Return the fields of a response with placeholders."""
        return [(self.redactor.raw(name), self.redactor.raw(value)) for name, value in fields]

    def _value(self, encode: Encode) -> Replacement:
        return lambda number, _: encode(self._values[number]).encode()


def _encoder(content_type: bytes) -> Encode:
    found = _MEDIA_TYPE.match(content_type.strip().lower())
    kind = found[0] if found else b""
    if kind == b"application/json" or kind.endswith(b"+json"):
        return _as_json
    return quote_plus if kind == b"application/x-www-form-urlencoded" else str


def _as_json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]
