"""The common encodings of a value, which redaction searches for: escapes, hexadecimal and base64."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

_NESTED = 3  # JSON in a text of JSON in a text of JSON, as in transcripts of tool calls
_GROUP, _BITS = 3, 6  # base64 encodes groups of 3 bytes as characters of 6 bits


def encodings(value: str) -> tuple[str, ...]:
    """Return the value and its common encodings, longest first, without duplicates.

    Raises:
        UnicodeEncodeError: The value has half of a surrogate pair.
    """
    data = value.encode()
    found = {
        value,
        repr(value)[1:-1],
        html.escape(value),
        html.escape(value, quote=False),
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        data.hex(),
    }
    for ascii_only in (True, False):
        text = value
        for _ in range(_NESTED):
            text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            found.add(text)
    for shift in range(_GROUP):
        text = base64_within(data, shift)
        found |= {text, text.translate(str.maketrans("+/", "-_"))}
    return tuple(sorted(found, key=lambda each: (-len(each), each)))


def base64_within(data: bytes, shift: int) -> str:
    """Return the base64 characters that depend on `data` alone when it follows other bytes.

    At most 4 bits at each end of the data are in characters that depend on neighbouring bytes too.

    Args:
        data: The data.
        shift: The number of bytes before the data, modulo 3.
    """
    filled = base64.b64encode(bytes(shift) + data + bytes(-(shift + len(data)) % _GROUP)).decode()
    first, end = -(-8 * shift // _BITS), 8 * (shift + len(data)) // _BITS
    return filled[first:end]
