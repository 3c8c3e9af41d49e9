"""The requirements a script declares in its own comments (PEP 723). Text only: nothing is run or imported."""

import platform
import re
import tomllib
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sandbox.contract import UnresolvedRequirements

_OPEN, _CLOSE = re.compile(r"# /// ([a-zA-Z0-9-]+)"), "# ///"
_EXAMPLE = "It looks like: # /// script, # dependencies = ['six>=1.16'], # ///, each on a line of its own."


def requirements_of(source: str) -> tuple[str, ...]:
    """`dependencies` of the script's block as they stand; empty without a block.

    ``[tool]`` tables are not heeded: where packages come from is the machine's to say. Raises UnresolvedRequirements
    when the block cannot be read, or when its ``requires-python`` excludes the Python that boxes run.
    """
    text = _block(source)
    if text is None:
        return ()
    try:
        block = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise UnresolvedRequirements(f"The script's PEP 723 block is not TOML: {problem}.", remedy=_EXAMPLE) from None
    _check_python(block.get("requires-python"))
    found = block.get("dependencies", [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise UnresolvedRequirements(
            "`dependencies` in the script's PEP 723 block is not a list of strings.", remedy=_EXAMPLE
        )
    return tuple(found)


def _block(source: str) -> str | None:
    """The TOML between the markers. PEP 723: the last closing marker of the run of comment lines ends the block.

    Found as by the regular expression there, by which a block has at least one line.
    """
    found: str | None = None
    lines = [line.removesuffix("\r") for line in source.split("\n")]
    at = 0
    while at < len(lines):
        opening = _OPEN.fullmatch(lines[at])
        if opening is None:
            at += 1
            continue
        end = at + 1
        while end < len(lines) and (lines[end] == "#" or lines[end].startswith("# ")):
            end += 1
        closing = max((i for i in range(at + 2, end) if lines[i] == _CLOSE), default=None)
        if closing is None:
            at += 1  # without an end it is a comment like any other
            continue
        if opening[1] == "script" and found is not None:
            raise UnresolvedRequirements("The script has more than one PEP 723 block.", remedy="Keep one.")
        if opening[1] == "script":
            found = "\n".join(line[2:] for line in lines[at + 1 : closing])
        at = closing + 1
    return found


def _check_python(wanted: Any) -> None:
    if wanted is None:
        return
    have = platform.python_version()
    try:
        fits = SpecifierSet(str(wanted)).contains(have, prereleases=True)
    except InvalidSpecifier:
        raise UnresolvedRequirements(f"`requires-python` {str(wanted)[:100]!r} is not a version specifier.") from None
    if not fits:
        raise UnresolvedRequirements(f"The script requires Python {wanted}, and boxes here run {have}.")
