"""Defines the languages of skills besides Python, and reads the interfaces of their programs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from acquired_skills.in_box.common_js import own_range
from acquired_skills.proof.programs.doc_comments import ProgramInterface, UndescribedFunction, read_interface, stripped
from acquired_skills.proof.programs.node_exports import ExportedFunction, NodeParameter, exported_function
from sandbox.contract import Language

_TEXT = {"type": "string"}
_COMMENTS = re.compile(r"/\*.*?\*/|^\s*(?://|#).*?$", re.DOTALL | re.MULTILINE)

_UNLIKELY = re.compile(
    r"""\bthrow\s+new\s+[\w$.]+\([^)]{0,500}\)|\bthrow\b.*|\btypeof\s+[\w$.]+\s*[!=]==?\s*(['"])\w+\1"""
    r"""|(['"])\w+\2\s*[!=]==?\s*typeof\b|(['"])use strict\3|\brequire\(\s*(['"])[^'"\n]+\4\s*\)|^\s*import\b.*"""
    r"""|\bfrom\s*(['"])[^'"\n]+\5""",
    re.MULTILINE,
)


class ProgramLanguage(Protocol):
    """A language other than Python in which skills can be written."""

    language: Language
    needs_returns: bool  # whether the result is text if the comment has no `@returns`

    def interface(self, name: str, code: str) -> ProgramInterface:
        """Return the interface that the comment of the program states, with the problems in the comment."""
        ...


class NodePrograms:
    """Node skills: a module that exports a function with a JSDoc comment."""

    language = Language.NODE
    needs_returns = False

    def interface(self, name: str, code: str) -> ProgramInterface:
        """Return the interface that the comment above the exported function states."""
        names = function_names(name)
        exported = exported_function(names, code)
        if exported is None:
            wanted = " or ".join(f"`export function {each}(...)`" for each in names)
            return _unusable(
                f"The code exports no function `{name}`. Write {wanted}, `export default function (...)`, or the same "
                "with `module.exports`."
            )
        if rest := next((each.name for each in exported.parameters or () if each.rest), ""):
            return _unusable(_rest_problem(name, exported, rest))
        if exported.comment is not None:
            return _described(exported.name or name, exported.parameters, exported.comment)
        if exported.parameters is None:
            return _unusable(
                f"No function `{name}` can be found in what the code exports. Export a function of this name, or "
                f"describe it in a `/** … */` comment with the line `@function {names[-1]}`.",
                undescribed=UndescribedFunction((), names[-1]),
            )
        return _unusable(
            f"`{exported.name or name}` has no JSDoc comment directly above it. Write `/** … */` with a line "
            "`@param {type} name - what it is` for each parameter, and `@returns {type}`.",
            undescribed=UndescribedFunction(tuple(each.name for each in exported.parameters)),
        )


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


def function_names(name: str) -> list[str]:
    """Return the names that the function of a Node skill may have: in snake_case and in camelCase."""
    first, *rest = name.split("_")
    return [name, first + "".join(map(str.title, rest))] if rest else [name]


def _unusable(problem: str, undescribed: UndescribedFunction | None = None) -> ProgramInterface:
    return ProgramInterface(
        {"type": "object", "properties": {}, "required": []}, problems=(problem,), undescribed=undescribed
    )


def _described(called: str, given: Sequence[NodeParameter] | None, comment: str) -> ProgramInterface:
    """Return the interface in the comment of a function, compared with its parameters if these are known."""
    found = read_interface(stripped(comment.splitlines(), "*"))
    if given is None:
        return found
    names = [each.name for each in given]
    has = ", ".join(name or "{…}" for name in names)
    if given and not found.names and not found.problems:
        text = f"The comment of `{called}` has no `@param` line for its parameters ({has}). Describe each of them."
        return _unusable(text, undescribed=UndescribedFunction(tuple(names)))
    for described, each in zip(found.names, given, strict=False):  # optional, whatever the comment says
        if each.optional and described in found.parameters["required"]:
            found.parameters["required"].remove(described)
    if found.problems:  # a line with a problem describes no parameter
        return replace(found, undescribed=UndescribedFunction(tuple(names)))
    if _same_names(names[: len(found.names)], found.names):  # the comment may leave out parameters at the end
        return found
    text = (
        f"`{called}` must have the same parameters as its comment, in the same order: ({', '.join(found.names)}). In "
        f"the code they are ({has})."
    )
    return replace(found, problems=(text,))


def _rest_problem(wanted: str, exported: ExportedFunction, rest: str) -> str:
    """Return what to do about a rest parameter, with the function to add where it can be written down."""
    called = exported.name
    names = [each.name for each in exported.parameters or ()]
    text = f"`{called or wanted}` takes any number of arguments (`...{rest}`), but the arguments of a tool have names. "
    if not called or called == wanted or not all(names):
        return f"{text}Let `{rest}` be a list: remove the `...`, and spread it where the function uses it."
    spread = ", ".join([*names[:-1], f"...{rest}"])
    return (
        f"{text}Export a function that takes them as a list: `export function {wanted}({', '.join(names)}) {{ return "
        f"{called}({spread}); }}`, with the comment above it."
    )


def _same_names(given: Sequence[str], described: Sequence[str]) -> bool:
    """Return whether names match those in the comment. A destructured parameter has no name and matches any."""
    return len(given) == len(described) and all(one in ("", other) for one, other in zip(given, described, strict=True))


def constants_of(code: str) -> Sequence[str | int | float]:
    """Return the numbers and the quoted strings that a program seems to contain outside of its comments.

    Strings that are no likely arguments are left out: error messages, names of types and of modules, and templates.
    """
    start, end = own_range(code)
    code = _UNLIKELY.sub("", _COMMENTS.sub("", code[start:end]))
    texts = [match[2] for match in re.finditer(r"(['\"`])([^'\"`\n]{1,50})\1", code) if "${" not in match[2]]
    numbers = [
        float(each) if "." in each else int(each)
        for each in re.findall(r"(?<![\w.])\d{1,6}(?:\.\d{1,6})?(?![\w.])", code)
    ]
    return [*numbers, *texts]
