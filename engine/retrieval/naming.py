"""Recognizes exact names of tools in a request.

A name such as `word_count` is recognized wherever it occurs. A name that is an ordinary word (`add`, `record`) is
recognized only if it is the whole request, is quoted, or is used as a name ("use add", "the add tool", "add(1, 2)").
Otherwise "add milk to my list" would find a tool that adds numbers.
"""

import re

# What precedes a run of characters is checked, so that the time is linear in the length of the request.
_NAME = re.compile(r"(?<![\w.-])[\w.-]*\w")
_ORDINARY = re.compile(r"[^\W\d_]+")
_CALLED = re.compile(
    r"""[`'"\u2018\u201c«]\s*([^\W\d_]+)\s*[`'"\u2019\u201d»]"""  # quoted
    r"""|(?<![^\W\d_])([^\W\d_]++)\s?\("""  # add(
    r"""|(?<![^\W\d_])([^\W\d_]++)(?=[ -](?:skill|tool|function)\b)"""  # the add tool
    r"""|\b(?:use|using|call|run|invoke|execute|skill|tool|function)\s+([^\W\d_]+)(?![\w.-]*\w)""",  # use add
    re.IGNORECASE,
)


def names_in(request: str) -> set[str]:
    """Return the words of a request that are used as names, in their original spelling."""
    words = set(_NAME.findall(request))
    ordinary = {word for word in words if _ORDINARY.fullmatch(word)}
    if len(words) <= 1:
        return words
    called = {word for groups in _CALLED.findall(request) for word in groups if word}
    return words - ordinary | ordinary & called


def folded(name: str) -> str:
    """Return a name in lower case with `_` for `-`, so that common misspellings compare equal."""
    return name.casefold().replace("-", "_")
