"""Defines the languages of skills besides Python, and reads the interfaces of their programs."""

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from acquired_skills.proof.programs.doc_comments import ProgramInterface, read_interface, stripped
from sandbox.contract import Language

_NO_ONE = -1
_TEXT = {"type": "string"}
_NAMED = r"(?m)^[ \t]*export\s+(?:default\s+)?(?:async\s+)?function\s+({})\s*\("
_DEFAULT = r"(?m)^[ \t]*export\s+default\s+(?:async\s+)?function(?:\s+([A-Za-z_$][\w$]*))?\s*\("
_DEFAULT_NAME = r"(?m)^[ \t]*export\s+default\s+([A-Za-z_$][\w$]*)\s*;?\s*$"
_DEFINED = (  # a function that is exported by another statement, or that is the value of a constant
    r"(?m)^(?:export\s+)?(?:async\s+)?function\s+({0})\s*\(",
    r"(?m)^(?:export\s+)?(?:const|let|var)\s+({0})\s*=\s*(?:async\s*)?(?:function\s*(?:[\w$]+\s*)?)?\(",
)
_COMMENTS = re.compile(r"/\*.*?\*/|^\s*(?://|#).*?$", re.DOTALL | re.MULTILINE)
_PARAMETER = re.compile(r"(?:([A-Za-z_$][\w$]*)|\{[\s\S]*?\}|\[[\s\S]*?\])\s*(?:=(?!=)|\Z)")


class ProgramLanguage(Protocol):
    """A language other than Python in which skills can be written."""

    language: Language
    needs_returns: bool  # whether the result is text if the comment has no `@returns`

    def interface(self, name: str, code: str) -> ProgramInterface:
        """Return the interface that the comment of the program states, with the problems in the comment."""
        ...


class NodePrograms:
    """Node skills: an ES module that exports a function, with a JSDoc comment."""

    language = Language.NODE
    needs_returns = False

    def interface(self, name: str, code: str) -> ProgramInterface:
        """Return the interface that the comment above the exported function states."""
        first, *rest = name.split("_")
        names = [name, first + "".join(map(str.title, rest))]
        exported = re.search(_NAMED.format("|".join(names)), code) or re.search(_DEFAULT, code)
        exported = exported or _exported_constant("|".join(names), code)
        if exported is None:
            wanted = f"`export function {name}(...)`" + (f" or `export function {names[1]}(...)`" if rest else "")
            common = (
                " Convert the CommonJS module to an ES module: use `import` and `export`, not `require` and "
                "`module.exports`."
                if "module.exports" in code
                else ""
            )
            return _unusable(
                f"The code exports no function `{name}`. Write {wanted} at the beginning of a line, or `export default "
                f"function`.{common}"
            )
        called = exported[1] or name
        end = code.rfind("*/", 0, exported.start())
        start = code.rfind("/**", 0, max(0, end))
        if start < 0 or code[end + 2 : exported.start()].strip():
            return _unusable(
                f"`{called}` has no JSDoc comment directly above it. Write `/** … */` with a line "
                "`@param {type} name - what it is` for each parameter, and `@returns {type}`."
            )
        found = read_interface(stripped(code[start + 3 : end].splitlines(), "*"))
        given = _parameters(code, exported.end())
        for each in _with_default(code, exported.end()):  # these are optional, whatever the comment says
            if each in found.parameters["required"]:
                found.parameters["required"].remove(each)
        if given is None or not _same_names(given, found.names):
            listed = ", ".join(found.names)
            text = f"`{called}` must have the same parameters as its comment, in the same order: ({listed})."
            return ProgramInterface(found.parameters, found.returns, (*found.problems, text))
        return found


class BashPrograms:
    """Bash skills: a script with a comment at its beginning."""

    language = Language.BASH
    needs_returns = True

    def interface(self, name: str, code: str) -> ProgramInterface:  # noqa: ARG002 -- as the protocol
        """Return the interface that the comment at the beginning states. Without `@returns`, the result is text."""
        lines = code.removeprefix("\ufeff").splitlines()
        if lines and lines[0].startswith("#!"):
            lines = lines[1:]
        rest = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
        found = read_interface(stripped(lines[:rest], "#"))
        if not any(line.startswith("#") for line in lines[:rest]):
            return _unusable(
                "The script has no comment at the beginning. Write one that says what the script does, with a line "
                "`# @param {type} name - what it is` for each argument. The arguments are `$1`, `$2`, …; the one named "
                "`stdin` is standard input."
            )
        return ProgramInterface(found.parameters, found.returns or _TEXT, found.problems)


PROGRAM_LANGUAGES: dict[Language, ProgramLanguage] = {Language.NODE: NodePrograms(), Language.BASH: BashPrograms()}


def _unusable(problem: str) -> ProgramInterface:
    return ProgramInterface({"type": "object", "properties": {}, "required": []}, problems=(problem,))


def _parameters(code: str, start: int) -> list[str] | None:
    """Return the names of the parameters in the list that begins at `start`.

    The name of a destructured parameter is "". The result is None if there are other kinds of parameters, such as rest
    parameters.
    """
    found = [part.strip() for part in _parts(code, start)]
    if found and not found[-1]:
        found.pop()
    names = [_PARAMETER.match(part) for part in found]
    return None if any(each is None for each in names) else [each[1] or "" for each in names if each is not None]


def _exported_constant(names: str, code: str) -> re.Match[str] | None:
    """Find a function that is exported as a constant with one of these names, or as the default export."""
    by_name = re.search(_DEFINED[1].format(names), code)
    if by_name is not None and by_name[0].startswith("export"):
        return by_name
    default = re.search(_DEFAULT_NAME, code)
    found = [re.search(each.format(re.escape(default[1])), code) for each in _DEFINED] if default else []
    return next((each for each in found if each is not None), None)


def _with_default(code: str, start: int) -> list[str]:
    """Return the names of the parameters that have a default in the code."""
    found = [_PARAMETER.match(part.strip()) for part in _parts(code, start)]
    return [each[1] for each in found if each is not None and each[1] and each[0].endswith("=")]


def _same_names(given: Sequence[str], described: Sequence[str]) -> bool:
    """Return whether names match those in the comment. A destructured parameter has no name and matches any."""
    return len(given) == len(described) and all(one in ("", other) for one, other in zip(given, described, strict=True))


def _parts(code: str, start: int) -> Iterator[str]:
    """Yield the text of each parameter in a parameter list."""
    depth, quote, text = 0, "", ""
    for at in range(start, len(code)):
        sign = code[at]
        if quote:
            quote = "" if sign == quote and code[at - 1] != "\\" else quote
        elif sign in "'\"`":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
            if depth == _NO_ONE:
                yield text
                return
        elif sign == "," and not depth:
            yield text
            text = ""
            continue
        text += sign


def constants_of(code: str) -> Sequence[str | int | float]:
    """Return the numbers and the quoted strings that a program seems to contain outside of its comments."""
    code = _COMMENTS.sub("", code)
    texts = [match[2] for match in re.finditer(r"(['\"`])([^'\"`\n]{1,50})\1", code)]
    numbers = [
        float(each) if "." in each else int(each)
        for each in re.findall(r"(?<![\w.])\d{1,6}(?:\.\d{1,6})?(?![\w.])", code)
    ]
    return [*numbers, *texts]
