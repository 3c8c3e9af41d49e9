"""The modules a template imports before its first fork. Standard library only."""

import importlib
from collections.abc import Iterable

# What nearly every script imports; a box has it already.
COMMON = (
    "collections", "csv", "datetime", "decimal", "enum", "functools", "io", "itertools", "json", "math", "pathlib",
    "random", "re", "statistics", "string", "subprocess", "textwrap", "threading", "traceback", "typing",
)  # fmt: skip


def import_all(names: Iterable[str]) -> list[str]:
    """Import what is there; the names of what is not."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing
