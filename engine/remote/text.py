"""Makes text from outside safe to show: limits its length, and removes control and invisible characters."""


def clean(text: str, limit: int) -> str:
    """Remove control and invisible characters except line ends and tabs, and cut the text to `limit` characters.

    Unicode's format and private-use characters count as invisible. They could carry text that only a model can see.
    """
    kept = "".join(each for each in text[: 4 * limit] if each.isprintable() or each in "\n\t").strip()
    return kept if len(kept) <= limit else f"{kept[: limit - 1]}…"


def first_of(error: BaseException) -> str:
    """Return an error's text in one line; for an exception group, the text of its first exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return one_line(str(error)) or type(error).__name__


def one_line(text: str, limit: int = 300) -> str:
    return " ".join(clean(text, limit).split())
