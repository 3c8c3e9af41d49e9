"""Our own files that go into a box, under the paths they are imported by there."""

import functools
from collections.abc import Mapping
from pathlib import Path

_TOP = Path(__file__).parents[2]
_PACKAGES = ("acquired_skills", "acquired_skills/in_box", "engine", "engine/registry")
_SHARED = (
    "acquired_skills/in_box/effort.py",
    "acquired_skills/in_box/mutants.py",
    "acquired_skills/in_box/mutation.py",
    "acquired_skills/in_box/operators.py",
    "acquired_skills/in_box/recorder.py",
    "acquired_skills/in_box/skill_arguments.py",
    "acquired_skills/in_box/switch.py",
    "acquired_skills/in_box/trial.py",
    "engine/registry/docstring.py",
)

# Pydantic and pytest import most of themselves late; naming the parts puts them into the box's template.
PYDANTIC = ("pydantic.json_schema", "pydantic.main", "pydantic.type_adapter")
PYTEST = ("pytest", "unittest")
HARNESS = "acquired_skills/in_box/harness.py"
TYPED_CALL = "acquired_skills/in_box/typed_call.py"
ASKED = "acquired_skills/in_box/asked.py"


@functools.cache  # they change with the installation only
def box_files(entry: str) -> Mapping[str, bytes]:
    """The file `entry` (HARNESS, TYPED_CALL or ASKED) and what it imports.

    The packages get empty `__init__` files, so that they are found here and not in an installed Knackbox.
    """
    files = {f"{package}/__init__.py": b"" for package in _PACKAGES}
    for path in (entry, *_SHARED):
        files[path] = (_TOP / path).read_bytes()
    return files
