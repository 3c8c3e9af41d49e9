"""Our own files that go into a box, under the paths they are imported by there."""

import functools
from collections.abc import Mapping
from pathlib import Path

_TOP = Path(__file__).parents[2]
_PACKAGES = ("acquired_skills", "acquired_skills/in_box", "engine", "engine/registry")
_ASKING = ("asking.py", "packing.py", "surroundings.py")
_RUNNING = (*_ASKING, "effort.py", "runner.py", "stand_in.py")
_WITH: Mapping[str, tuple[str, ...]] = {  # beside what converts arguments, which is everywhere
    "harness.py": (*_RUNNING, "recorder.py", "switch.py"),
    "judge.py": _RUNNING,
    "answers.py": _ASKING,
}
_SHARED = ("acquired_skills/in_box/skill_arguments.py", "engine/registry/docstring.py")

# Pydantic and pytest import most of themselves late; naming the parts puts them into the box's template.
PYDANTIC = ("pydantic.json_schema", "pydantic.main", "pydantic.type_adapter")
PYTEST = ("pytest", "unittest")
HARNESS = "acquired_skills/in_box/harness.py"
TYPED_CALL = "acquired_skills/in_box/typed_call.py"
ASKED = "acquired_skills/in_box/asked.py"
JUDGE = "acquired_skills/in_box/judge.py"
ANSWERS = "acquired_skills/in_box/answers.py"


@functools.cache  # they change with the installation only
def box_files(entry: str) -> Mapping[str, bytes]:
    """The file `entry` (HARNESS, TYPED_CALL, ASKED, JUDGE or ANSWERS) and what it imports.

    The packages get empty `__init__` files, so that they are found here and not in an installed Knackbox.
    """
    files = {f"{package}/__init__.py": b"" for package in _PACKAGES}
    beside = (f"acquired_skills/in_box/{name}" for name in _WITH.get(entry.rpartition("/")[2], ()))
    for path in (entry, *beside, *_SHARED):
        files[path] = (_TOP / path).read_bytes()
    return files
