"""The modules a template imports before its first fork. Standard library only."""

import importlib
import sys
from collections.abc import Iterable, Sequence

from sandbox import worker

# Modules that most scripts import. A box starts with them imported.
COMMON = (
    "collections", "csv", "datetime", "decimal", "enum", "functools", "io", "itertools", "json", "math", "pathlib",
    "random", "re", "statistics", "string", "subprocess", "textwrap", "threading", "traceback", "typing",
)  # fmt: skip


def for_template(wanted: Sequence[str], packages: Sequence[str]) -> list[str]:
    """Import the common modules of the standard library, then the wanted ones.

    A template imports modules outside of every box, with its own rights. The folders in `packages` are therefore not
    even read if no modules are wanted. The worker of a box finds the packages through PYTHONPATH.

    Returns:
        The names that could not be imported.
    """
    missing = import_all(COMMON)
    worker.prepare_template()
    if wanted:
        sys.path += packages
        missing += import_all(wanted)
    return missing


def import_all(names: Iterable[str]) -> list[str]:
    """Import the modules; return the names that could not be imported."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing
