"""`parse_source`: parses Python source from any thread."""

import ast

_ATTEMPTS = 20


def parse_source(source: str | bytes) -> ast.Module:
    """Parse a module.

    In CPython 3.11 threads that parse at the same time may disturb each other (python/cpython#106905), which shows as a
    SystemError; the same source is then parsed again.

    Raises:
        SyntaxError: the source is no Python.
        ValueError: the source holds null bytes.
        RecursionError: the source is nested too deeply.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)
