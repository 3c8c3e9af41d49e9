"""What a skill's code declares in its own comments (PEP 723): packages, and where it connects to. Text only.

    # /// script
    # requires-python = ">=3.11"
    # dependencies = ["requests>=2.32"]
    #
    # [tool.knackbox]
    # destinations = ["api.example.com:443"]
    # ///

Other tables below ``[tool]`` are not heeded: where packages come from is the machine's to say.
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

MAX_CHARS = 4096  # of one block: tomllib takes half a minute for 64 KiB of dotted keys
_OPEN, _CLOSE = re.compile(r"# /// ([a-zA-Z0-9-]+)"), "# ///"
_EXAMPLE = (
    "It looks like this, each on a line of its own: `# /// script`, `# dependencies = ['six>=1.16']`, "
    "`# [tool.knackbox]`, `# destinations = ['api.example.com:443']`, `# ///`."
)


class BlockError(ValueError):
    """A block that cannot be followed; the message says what is wrong and what to write."""


@dataclass(frozen=True, slots=True)
class Declared:
    """dependencies: as they stand (PEP 508). destinations: canonical, each once."""

    dependencies: tuple[str, ...] = ()
    destinations: tuple[Destination, ...] = ()


def declared_in(source: str) -> Declared:
    """What the block of a source says; nothing without a block. Raises BlockError."""
    text = _block(source)
    if text is None:
        return Declared()
    try:
        block = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:  # a plain ValueError for numbers of thousands of digits
        raise BlockError(f"The PEP 723 block is not TOML: {problem}. {_EXAMPLE}") from None
    _check_python(block.get("requires-python"))
    dependencies = _strings(block.get("dependencies", []), "dependencies")
    for dependency in dependencies:
        _check_requirement(dependency)
    return Declared(dependencies, _destinations(block.get("tool", {})))


def _block(source: str) -> str | None:
    """The TOML between the markers of the one `script` block."""
    found = [text for kind, text in _blocks(source) if kind == "script"]
    if len(found) > 1:
        raise BlockError("There is more than one PEP 723 block: keep one.")
    if found and len(found[0]) > MAX_CHARS:
        raise BlockError(f"The PEP 723 block has {len(found[0]):,} characters: keep it to {MAX_CHARS:,}.")
    return found[0] if found else None


def _blocks(source: str) -> Iterator[tuple[str, str]]:
    """(type, content) of every block where the regular expression of PEP 723 finds one, in time linear in the source.

    The expression itself takes seconds for 64 KiB of openings that nobody closes. By it a block lies within one run of
    comment lines, ends at the last closing marker of the run, and has at least one line.
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
    """Only that it can be read; what may be installed is `sandbox.environments.requirements`' to say."""
    try:
        Requirement(text)
    except (InvalidRequirement, RecursionError):
        raise BlockError(
            f"`dependencies` has {text[:100]!r}, which is not a requirement: write a name with versions, such as "
            "'six>=1.16'."
        ) from None


def _check_python(wanted: Any) -> None:
    if wanted is None:
        return
    have = platform.python_version()  # what boxes run
    try:
        fits = SpecifierSet(str(wanted)).contains(have, prereleases=True)
    except InvalidSpecifier:
        raise BlockError(
            f"`requires-python` {str(wanted)[:100]!r} is not a version specifier: write one such as '>=3.11'."
        ) from None
    if not fits:
        raise BlockError(f"It requires Python {wanted}, and boxes here run {have}: make it work with that.")


def _destinations(tool: Any) -> tuple[Destination, ...]:
    ours = tool.get("knackbox", {}) if isinstance(tool, dict) else None
    if not isinstance(ours, dict):
        raise BlockError(f"`[tool.knackbox]` in the PEP 723 block is not a table. {_EXAMPLE}")
    if unknown := sorted(ours.keys() - {"destinations"}):
        raise BlockError(
            f"`[tool.knackbox]` has `{unknown[0][:80]}`, which means nothing here: it takes `destinations`."
        )
    texts = _strings(ours.get("destinations", []), "destinations")
    try:
        return checked(Destination.parse(text) for text in texts)
    except (ValueError, SandboxError) as problem:
        raise BlockError(f"`destinations` in the PEP 723 block: {problem} {_EXAMPLE}") from None
