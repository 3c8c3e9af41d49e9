"""Reads the packages, destinations and tools that a skill's code declares in a comment (PEP 723). The code is not run.

    # /// script
    # requires-python = ">=3.11"
    # dependencies = ["requests>=2.32"]
    #
    # [tool.knackbox]
    # destinations = ["api.example.com:443"]
    # tools = ["file_system"]
    # ///

Other tables below ``[tool]``, such as those that choose a package index, are ignored: the machine's configuration
decides where packages come from.
"""

import platform
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sandbox.contract import Destination, SandboxError
from sandbox.egress.rules import checked

MAX_CHARS = 4096  # largest number of characters of a block; tomllib takes half a minute for 64 KiB of dotted keys
MOST_TOOLS = 20
MOST_NAME = 200  # characters of the name of a tool
_OPEN, _CLOSE = re.compile(r"# /// ([a-zA-Z0-9-]+)"), "# ///"
_EXAMPLE = (
    "Write it in lines such as these: `# /// script`, `# dependencies = ['six>=1.16']`, `# [tool.knackbox]`, "
    "`# destinations = ['api.example.com:443']`, `# ///`."
)


class BlockError(ValueError):
    """An invalid script block. The message says what is wrong and what to write."""


@dataclass(frozen=True, slots=True)
class ScriptBlock:
    """What the script block of one source declares.

    Attributes:
        dependencies: Requirements, verbatim (PEP 508).
        destinations: Canonical destinations, without duplicates.
        tools: The names of the tools that the code calls, without duplicates.
    """

    dependencies: tuple[str, ...] = ()
    destinations: tuple[Destination, ...] = ()
    tools: tuple[str, ...] = ()


def read_script_block(source: str) -> ScriptBlock:
    """Read the script block of a source. The result is empty if there is none.

    Raises:
        BlockError: The block is invalid, or there is more than one.
    """
    text = _block(source)
    if text is None:
        return ScriptBlock()
    try:
        block = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:  # tomllib raises ValueError for numbers with thousands of digits
        raise BlockError(f"The PEP 723 block is not TOML: {problem}. {_EXAMPLE}") from None
    _check_python(block.get("requires-python"))
    dependencies = _strings(block.get("dependencies", []), "dependencies")
    for dependency in dependencies:
        _check_requirement(dependency)
    ours = _ours(block.get("tool", {}))
    return ScriptBlock(dependencies, _destinations(ours), _tools(ours))


def script_block_text(source: str) -> str:
    """Return the script block of a source, as comment lines; "" if there is none or more than one."""
    try:
        text = _block(source)
    except BlockError:
        return ""
    if text is None:
        return ""
    return "\n".join(["# /// script", *(f"# {line}".rstrip() for line in text.split("\n")), _CLOSE])


def _block(source: str) -> str | None:
    """Return the TOML text of the `script` block; None if there is no such block."""
    found = [text for kind, text in _blocks(source) if kind == "script"]
    if len(found) > 1:
        raise BlockError("There is more than one PEP 723 block: keep only one.")
    if found and len(found[0]) > MAX_CHARS:
        raise BlockError(f"The PEP 723 block has {len(found[0]):,} characters: use at most {MAX_CHARS:,}.")
    return found[0] if found else None


def _blocks(source: str) -> Iterator[tuple[str, str]]:
    """Yield (type, content) of every block that the regular expression of PEP 723 matches, in linear time.

    The expression itself takes seconds for 64 KiB of opening markers that are never closed. It matches a block of at
    least one line within consecutive comment lines, up to the last closing marker in these lines.
    """
    run: list[str] = []
    for line in (*source.split("\n"), ""):
        text = line.removesuffix("\r")
        if text == "#" or text.startswith("# "):
            run.append(text)
            continue
        closing = max((i for i, each in enumerate(run) if each == _CLOSE), default=0)
        openings = (
            (i, match[1]) for i, each in enumerate(run[: max(closing - 1, 0)]) if (match := _OPEN.fullmatch(each))
        )
        first = next(openings, None)
        if first is not None:
            yield first[1], "\n".join(each[2:] for each in run[first[0] + 1 : closing])
        run = []


def _strings(found: Any, name: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise BlockError(f"`{name}` in the PEP 723 block is not a list of strings. {_EXAMPLE}")
    return tuple(found)


def _check_requirement(text: str) -> None:
    """Check the syntax of a requirement. `sandbox.environments.requirements` decides what may be installed."""
    try:
        Requirement(text)
    except (InvalidRequirement, RecursionError):
        raise BlockError(
            f"`dependencies` contains {text[:100]!r}, which is not a valid requirement: write a package name and a "
            "version specifier, such as 'six>=1.16'."
        ) from None


def _check_python(wanted: Any) -> None:
    if wanted is None:
        return
    have = platform.python_version()  # the Python version that boxes run
    try:
        fits = SpecifierSet(str(wanted)).contains(have, prereleases=True)
    except InvalidSpecifier:
        raise BlockError(
            f"`requires-python` {str(wanted)[:100]!r} is not a version specifier: write one such as '>=3.11'."
        ) from None
    if not fits:
        raise BlockError(f"The code requires Python {wanted}, but boxes run {have}: make it work with that version.")


def _ours(tool: Any) -> dict[str, Any]:
    ours = tool.get("knackbox", {}) if isinstance(tool, dict) else None
    if not isinstance(ours, dict):
        raise BlockError(f"`[tool.knackbox]` in the PEP 723 block is not a table. {_EXAMPLE}")
    if unknown := sorted(ours.keys() - {"destinations", "tools"}):
        raise BlockError(
            f"`[tool.knackbox]` has the unknown key `{unknown[0][:80]}`: use only `destinations` and `tools`."
        )
    return ours


def _tools(ours: dict[str, Any]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_strings(ours.get("tools", []), "tools")))
    if len(names) > MOST_TOOLS or not all(0 < len(name) <= MOST_NAME and name.isprintable() for name in names):
        raise BlockError(
            f"`tools` in the PEP 723 block lists at most {MOST_TOOLS} names of tools, such as 'file_system', of at "
            f"most {MOST_NAME} characters."
        )
    return names


def _destinations(ours: dict[str, Any]) -> tuple[Destination, ...]:
    texts = _strings(ours.get("destinations", []), "destinations")
    try:
        return checked(Destination.parse(text) for text in texts)
    except (ValueError, SandboxError) as problem:
        raise BlockError(f"`destinations` in the PEP 723 block: {problem} {_EXAMPLE}") from None
