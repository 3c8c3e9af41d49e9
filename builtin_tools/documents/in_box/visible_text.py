"""Removes characters that a reader does not see, but that a model, a terminal or a search would."""

import re

# Controls except tab and line feed, lone surrogates and noncharacters; line and paragraph separators are replaced.
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
# Soft hyphen, joiners and fillers that have no width, zero-width space, word joiner and invisible operators.
_NO_WIDTH = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u3164\ufeff\uffa0\ufff0-\ufffb"
_DIRECTION = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # they reorder the text that a reader sees
_TAGS = r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # copies of ASCII and of bytes without a shape
_INVISIBLE = re.compile(f"[{_CONTROLS}{_NO_WIDTH}{_DIRECTION}{_TAGS}]+")
# A joiner, or a variation selector, belongs to one character of another script than Latin, or to an emoji. In runs, or
# beside ASCII, it changes nothing that a reader sees.
_JOINERS = re.compile(
    r"(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]+|[\u200c\u200d]{2,}|[\u200c\u200d](?=[\x00-\x7f]|$)"
)
_SELECTORS = re.compile(r"(?<![^\x00-\x7f\ufe00-\ufe0f])[\ufe00-\ufe0f]+|[\ufe00-\ufe0f]{2,}")
_LINE_ENDS = re.compile(r"\r\n|[\r\u2028\u2029]")


def visible(text: str) -> tuple[str, int]:
    """Return a text without invisible characters, and how many of them were no control characters of ASCII.

    Line ends become ``\\n``. Escape sequences of terminals lose their escape character and are plain text.
    """
    text = _LINE_ENDS.sub("\n", text)
    if text.isascii():
        return _INVISIBLE.sub("", text), 0
    removed = 0

    def count(match: re.Match[str]) -> str:
        nonlocal removed
        removed += sum(character > "\x7f" for character in match[0])
        return ""

    for pattern in (_INVISIBLE, _JOINERS, _SELECTORS):
        text = pattern.sub(count, text)
    return text, removed
