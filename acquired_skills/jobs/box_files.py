"""Collects the modules of this project that run in boxes, for a box's template or as files of a job."""

import functools
import importlib.util
import marshal
import struct
from collections.abc import Mapping
from pathlib import Path

from sandbox.contract import InBoxModules

_TOP = Path(__file__).parents[2]
_PACKAGES = (
    "acquired_skills",
    "acquired_skills/in_box",
    "engine",
    "engine/registry",
    "sandbox",
    "sandbox/bridge",
    "sandbox/bridge/in_box",
)
_CALLING = (
    "function_forms",
    "array_packing",
    "call_data",
    "call_files",
    "own_classes",
    "packing",
    "unpacking",
    "fixed_clock",
    "recorded_tools",
    "sandbox/bridge/in_box/knackbox",
    "sandbox/bridge/in_box/knackbox_clock",
)
_RUNNING = (*_CALLING, "effort", "fake_skill", "runner")
_CONVERTING = (
    "function_forms",
    "skill_arguments",
    "hint_names",
    "inferred_hints",
    "json_values",
    "array_json",
    "array_packing",
    "own_classes",
    "engine/registry/docstring",
    "engine/registry/output_schema",
)
_UNCHECKED = 1  # marks a hash-based cache file that is not validated against its source (PEP 552)

# Pydantic and pytest import most of their modules lazily. These names load them in the box's template.
PYDANTIC = ("pydantic.json_schema", "pydantic.main", "pydantic.type_adapter")
PYTEST = ("pytest", "unittest")
# The entry files of calls. No skill can have one of these names, so a skill cannot replace them in the box.
HARNESS = "acquired_skills/entry/harness_.py"
TYPED_CALL = "acquired_skills/entry/typed_call_.py"
NEIGHBOUR = "acquired_skills/entry/neighbour_.py"
JUDGE = "acquired_skills/entry/judge_.py"
ISOLATED = "acquired_skills/entry/isolated_.py"
PROGRAM_CALL = "acquired_skills/entry/program_call_.py"
PROGRAM_ANSWERS = "acquired_skills/entry/program_answers_.py"
TEXT_MUTANTS = "acquired_skills/entry/text_mutants_.py"
_ENTRIES: Mapping[str, tuple[str, ...]] = {  # the function to call, its module, and the modules that this one imports
    HARNESS: ("rehearse", "harness", *_RUNNING, "recorder", "switch", *_CONVERTING),
    TYPED_CALL: ("call", "typed_call", *_CONVERTING),
    NEIGHBOUR: ("answers", "neighbour", *_CONVERTING),
    JUDGE: ("judge", "judge", "traces", *_RUNNING),
    ISOLATED: ("answers", "isolated", *_CALLING),
    PROGRAM_CALL: ("call", "program_calls", "program_callers", "node_driver", *_CALLING),
    PROGRAM_ANSWERS: ("answers", "program_calls", "program_callers", "node_driver", *_CALLING),
    TEXT_MUTANTS: ("mutants", "text_mutants", "common_js"),
}
# The entries of a group have the same modules, so that their jobs use the same template.
_SHARED = ((HARNESS, JUDGE, NEIGHBOUR),)


@functools.cache
def box_files(entry: str) -> Mapping[str, bytes]:
    """Return an entry file and the modules that it imports, with compiled copies.

    The packages get empty `__init__` files, so that they are imported from the job's folder and not from an installed
    Knackbox. A box with another version of Python ignores the compiled files.

    The first call for an entry compiles its files, which takes up to 0.1 s, so async code calls this in a thread. Jobs
    with an entry that is called often have its `in_box_modules` instead: a box that starts with them takes less time.

    Args:
        entry: One of the paths that this module defines as constants, such as `HARNESS`.
    """
    return {**in_box_modules(entry).files, **entry_file(entry)}


def entry_file(entry: str) -> dict[str, bytes]:
    """Return an entry file alone, for a job with the entry's `in_box_modules`."""
    function, module, *_ = _ENTRIES[entry]
    return {entry: f"from acquired_skills.in_box.{module} import {function}\n".encode()}


def in_box_modules(entry: str) -> InBoxModules:
    """Return the modules that an entry file imports. As with `box_files`, the first call takes up to 0.1 s."""
    return _modules_of(next((group for group in _SHARED if entry in group), (entry,)))


@functools.cache
def _modules_of(entries: tuple[str, ...]) -> InBoxModules:
    modules = dict.fromkeys(module for entry in entries for module in _ENTRIES[entry][1:])
    paths = [f"{module}.py" if "/" in module else f"acquired_skills/in_box/{module}.py" for module in modules]
    files = {f"{package}/__init__.py": b"" for package in _PACKAGES}
    for path in paths:
        files |= _with_compiled(path)
    return InBoxModules(tuple(path.removesuffix(".py").replace("/", ".") for path in paths), files)


@functools.cache  # the files change only with the installation
def _with_compiled(path: str) -> Mapping[str, bytes]:
    source = (_TOP / path).read_bytes()
    return {path: source, importlib.util.cache_from_source(path): _compiled(source, path)}


def _compiled(source: bytes, path: str) -> bytes:
    code = marshal.dumps(compile(source, path, "exec", dont_inherit=True))
    head = importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED)
    return head + importlib.util.source_hash(source) + code
