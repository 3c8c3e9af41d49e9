"""Which exact names a request contains.

A name such as `word_count` is meant wherever it stands. One that is an ordinary word (`add`, `record`) is meant when
the request says so: it is all of it, or quoted, or called ("use add", "the add tool", "add(1, 2)"). Otherwise "add milk
to my list" would be answered by adding numbers.
"""

import re

_NAME = re.compile(r"[\w.-]*\w")
_ORDINARY = re.compile(r"[^\W\d_]+")
_CALLED = re.compile(
    r"""[`'"\u2018\u201c«]\s*([^\W\d_]+)\s*[`'"\u2019\u201d»]"""  # quoted
    r"""|([^\W\d_]+)\s?\("""  # add(
    r"""|([^\W\d_]+)(?=[ -](?:skill|tool|function)\b)"""  # the add tool
    r"""|\b(?:use|using|call|run|invoke|execute|skill|tool|function)\s+([^\W\d_]+)(?![\w.-]*\w)""",  # use add
    re.IGNORECASE,
)


def names_in(request: str) -> set[str]:
    """Words of a request that can be names and are meant as such, as they are spelled."""
    words = set(_NAME.findall(request))
    ordinary = {word for word in words if _ORDINARY.fullmatch(word)}
    if len(words) <= 1:
        return words
    called = {word for groups in _CALLED.findall(request) for word in groups if word}
    return words - ordinary | ordinary & called


def folded(name: str) -> str:
    """A name without what people get wrong about it: case, and `-` for `_`."""
    return name.casefold().replace("-", "_")
