"""Names of skills (SKILL-2) and of their folders."""

import importlib.machinery
import keyword
import re
import sys

PATTERN = re.compile(r"[a-z][a-z0-9_]{1,62}")
# Python or pytest load a file of this name on their own, or the box has one of ours.
RESERVED = frozenset(
    {"conftest", "sitecustomize", "usercustomize", "acquired_skills", "engine", "harness", "typed_call", "main"}
)


def folder_name(name: str) -> str:
    """Return the folder of a skill. The Agent Skills format has hyphens where Python has underscores."""
    return name.replace("_", "-")


def skill_name(folder: str) -> str:
    """Return the skill that a folder is named after."""
    return folder.replace("-", "_")


def name_problems(name: str, static_names: frozenset[str]) -> list[str]:
    """Return everything wrong with a name, one sentence each that says what to change; empty for a valid name."""
    problems: list[str] = []
    if not PATTERN.fullmatch(name):
        problems.append(
            f"{name[:80]!r} is not a skill name: use 2 to 63 lower-case letters, digits and underscores, letter first."
        )
    if "__" in name or name.endswith("_"):
        problems.append(f"{name[:80]!r} has a doubled or trailing underscore: use single ones between words.")
    if problems:
        return problems
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        problems.append(f"`{name}` is a Python keyword: choose another name.")
    elif name in sys.stdlib_module_names:
        problems.append(f"`{name}` is a module of Python's standard library: choose another name.")
    elif name in static_names:
        problems.append(f"`{name}` is a built-in tool, and a skill cannot replace it: choose another name.")
    elif name in RESERVED or name.startswith("test_"):
        problems.append(f"`{name}` is reserved by pytest or the box: choose another name.")
    elif importlib.machinery.PathFinder.find_spec(name) is not None:
        problems.append(f"`{name}` is an installed Python package, which a skill would hide: choose another name.")
    return problems
