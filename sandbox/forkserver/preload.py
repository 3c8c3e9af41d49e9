"""The modules a template imports before its first fork. Standard library only."""

import importlib
import sys
from collections.abc import Iterable, Sequence

from sandbox import worker

# What nearly every script imports; a box has it already.
COMMON = (
    "collections", "csv", "datetime", "decimal", "enum", "functools", "io", "itertools", "json", "math", "pathlib",
    "random", "re", "statistics", "string", "subprocess", "textwrap", "threading", "traceback", "typing",
)  # fmt: skip


def for_template(wanted: Sequence[str], packages: Sequence[str]) -> list[str]:
    """Import Python's own, then what is wanted of the packages' folders; the names of what is not there.

    A template imports outside of every box and with its rights: without a wish the folders are not even looked into.
    Of them, a box's worker learns by PYTHONPATH.
    """
    missing = import_all(COMMON)
    worker.prepare_template()
    if wanted:
        sys.path += packages
        missing += import_all(wanted)
    return missing


def import_all(names: Iterable[str]) -> list[str]:
    """Import what is there; the names of what is not."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing
