"""The files of ours that are packed into a box, under the paths they are imported by there."""

import functools
import importlib.util
import marshal
import struct
from collections.abc import Mapping
from pathlib import Path

_TOP = Path(__file__).parents[2]
_PACKAGES = ("acquired_skills", "acquired_skills/in_box", "engine", "engine/registry")
_CALLING = ("call_data", "call_files", "packing")
_RUNNING = (*_CALLING, "effort", "fake_skill", "runner")
_CONVERTING = ("skill_arguments", "engine/registry/docstring", "engine/registry/output_schema")
_UNCHECKED = 1  # a hash-based cache file that is not validated against its source (PEP 552)

# Pydantic and pytest import most of their modules lazily. These names load them in the box's template.
PYDANTIC = ("pydantic.json_schema", "pydantic.main", "pydantic.type_adapter")
PYTEST = ("pytest", "unittest")
# Entry files of calls. No skill can have one of these names, so a skill cannot replace one in the box.
HARNESS = "acquired_skills/entry/harness_.py"
TYPED_CALL = "acquired_skills/entry/typed_call_.py"
NEIGHBOUR = "acquired_skills/entry/neighbour_.py"
JUDGE = "acquired_skills/entry/judge_.py"
ISOLATED = "acquired_skills/entry/isolated_.py"
_ENTRIES: Mapping[str, tuple[str, ...]] = {  # the function to call, its module, and the module's imports
    HARNESS: ("rehearse", "harness", *_RUNNING, "recorder", "switch", *_CONVERTING),
    TYPED_CALL: ("call", "typed_call", *_CONVERTING),
    NEIGHBOUR: ("answers", "neighbour", *_CONVERTING),
    JUDGE: ("judge", "judge", *_RUNNING),
    ISOLATED: ("answers", "isolated", *_CALLING),
}


@functools.cache  # they only change with the installation
def box_files(entry: str) -> Mapping[str, bytes]:
    """Return the file `entry` (HARNESS, TYPED_CALL, NEIGHBOUR, JUDGE or ISOLATED) and its imports, with compiled
    copies.

    The packages get empty `__init__` files, so that they are found here and not in an installed Knackbox. A box with
    another version of Python ignores the compiled files.
    """
    function, *modules = _ENTRIES[entry]
    files = {f"{package}/__init__.py": b"" for package in _PACKAGES}
    files[entry] = f"from acquired_skills.in_box.{modules[0]} import {function}\n".encode()
    for module in modules:
        path = f"{module}.py" if "/" in module else f"acquired_skills/in_box/{module}.py"
        files[path] = (_TOP / path).read_bytes()
        files[importlib.util.cache_from_source(path)] = _compiled(files[path], path)
    return files


def _compiled(source: bytes, path: str) -> bytes:
    code = marshal.dumps(compile(source, path, "exec", dont_inherit=True))
    head = importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED)
    return head + importlib.util.source_hash(source) + code
