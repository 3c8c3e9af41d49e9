"""`part_of`: the part of a long text that one call returns."""

MOST_BYTES = 11_000  # of UTF-8; the engine shows 16 KiB of a call's text to a model, the rest is for title and links
_BREAKS = ("\n\n", "\n", ". ", " ")


def part_of(text: str, start: int, most_bytes: int = MOST_BYTES) -> str:
    """Return the part of a text that begins at an offset.

    It ends at the end of a paragraph, line, sentence or word, if one ends in its second half.

    Args:
        text: The whole text.
        start: The offset in characters.
        most_bytes: The largest part, in bytes of UTF-8.
    """
    part = text[start : start + most_bytes].encode()[:most_bytes].decode(errors="ignore")
    if start + len(part) >= len(text):
        return part
    for mark in _BREAKS:
        at = part.rfind(mark, len(part) // 2)
        if at >= 0:
            return part[: at + len(mark)]
    return part
