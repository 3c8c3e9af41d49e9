"""Rules for the names of skills (SKILL-2), of their folders and of their extra files."""

import importlib.machinery
import keyword
import re
import sys

PATTERN = re.compile(r"[a-z][a-z0-9_]{1,62}")
EXTRA_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}){0,3}")
MOST_EXTRA = 16  # maximum number of extra files of one skill
# Names of files that Python or pytest load automatically, or that Knackbox puts into the box, and the name of the tool
# that reads instructions.
RESERVED = frozenset(
    {
        "conftest",
        "sitecustomize",
        "usercustomize",
        "acquired_skills",
        "engine",
        "harness",
        "knackbox",
        "typed_call",
        "main",
        "read_skill",
    }
)


def folder_name(name: str) -> str:
    """Return the folder name of a skill. The Agent Skills format uses hyphens where Python uses underscores."""
    return name.replace("_", "-")


def skill_name(folder: str) -> str:
    """Return the skill name that belongs to a folder name."""
    return folder.replace("-", "_")


def free_name(name: str, static_names: frozenset[str]) -> str:
    """Return a free name similar to one that is already in use."""
    candidates = (f"{name[:40]}_{word}" for word in ("skill", "tool", "function"))
    return next((each for each in candidates if not name_problems(each, static_names)), "another_name")


def name_problems(name: str, static_names: frozenset[str]) -> list[str]:
    """Return the problems of a name. Each is a sentence that says what to change."""
    problems: list[str] = []
    if not PATTERN.fullmatch(name):
        problems.append(
            f"{name[:80]!r} is not a skill name: use 2 to 63 lower-case letters, digits and underscores, and begin "
            "with a letter."
        )
    if "__" in name or name.endswith("_"):
        problems.append(f"{name[:80]!r} has a doubled or trailing underscore: use single underscores between words.")
    if problems:
        return problems
    used_as = _used_as(name, static_names)
    if used_as:
        free = free_name(name.removeprefix("test_"), static_names)
        problems.append(f"`{name}` is {used_as}: choose another name, such as `{free}`, also for the function.")
    return problems


def module_used_as(name: str) -> str:
    """Return what the name of an extra module is already used for, or "" if it is free."""
    return _used_as(name, frozenset())


def _used_as(name: str, static_names: frozenset[str]) -> str:
    """Return what a name is already used for, or "" if it is free."""
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return "a Python keyword"
    if name in sys.stdlib_module_names:
        return "a module of Python's standard library, which a skill would hide"
    if name in static_names:
        return "a built-in tool, which a skill cannot replace"
    if name in RESERVED or name.startswith("test_"):
        return "reserved by pytest, the box or Knackbox"
    if importlib.machinery.PathFinder.find_spec(name) is not None:
        return "an installed Python package, which a skill would hide"
    return ""
