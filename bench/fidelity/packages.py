"""Selects the parts of the test suites of numpy and pandas that are run."""

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from bench.fidelity.sides import Unit

FOLDERS = {
    "numpy": ("numpy/_core/tests", "numpy/lib/tests", "numpy/linalg/tests", "numpy/fft/tests", "numpy/random/tests"),
    "pandas": ("pandas/tests/io", "pandas/tests/frame", "pandas/tests/series", "pandas/tests/config"),
}


def units(package: str, wanted: Iterable[str]) -> list[Unit]:
    """Return one unit for each test file in the named folders, or in the default ones.

    Raises:
        LookupError: The package or its tests are not installed.
    """
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise LookupError(f"{package} is not installed (pip install {package}).")
    root = Path(found.origin).parents[1]
    files = [
        file.relative_to(root).as_posix()
        for folder in wanted or FOLDERS[package]
        for file in ([root / folder] if folder.endswith(".py") else sorted((root / folder).rglob("test_*.py")))
    ]
    if not files:
        raise LookupError(f"There are no tests of {package} below {root}. Install a package that includes its tests.")
    return [Unit(file, "pytest_cases.py", (package, file)) for file in files]
