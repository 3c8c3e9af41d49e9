"""Text from elsewhere, made fit to be shown: bounded, and without what a terminal obeys or nobody can see."""


def clean(text: str, limit: int) -> str:
    """At most `limit` characters. Control characters, and invisible ones that could carry words only a model reads
    (Unicode's format and private characters), are left out; line ends and tabs stay."""
    kept = "".join(each for each in text[: 4 * limit] if each.isprintable() or each in "\n\t").strip()
    return kept if len(kept) <= limit else f"{kept[: limit - 1]}…"


def first_of(error: BaseException) -> str:
    """What an error says, in one line; of a group, as tasks raise them, the first one's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return one_line(str(error)) or type(error).__name__


def one_line(text: str, limit: int = 300) -> str:
    return " ".join(clean(text, limit).split())
