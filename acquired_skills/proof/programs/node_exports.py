"""Finds the function that a Node module exports, its parameters and its comment, by reading the text (SKILL-22).

The text is searched with patterns and not parsed, in bounded time. Where the function cannot be found, as in
`module.exports = make()`, the comment alone describes it, and the box says whether there is such a function.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from acquired_skills.in_box.common_js import without_comments

_ID = r"[A-Za-z_$][\w$]*"
_SOMETHING = re.compile(
    r"\bexport\s+(?:default\b|\{|const\b|let\b|var\b|(?:async\s+)?function\b)|(?<![\w$.])exports\b|\bmodule\.exports\b"
)
_DEFAULT = r"\bexport\s+default\s+|\bmodule\.exports\s*=(?!=)\s*|(?<![\w$.])exports\.default\s*=(?!=)\s*"
_CHAINED = re.compile(r"(?:(?:module\.)?exports(?:\.[\w$]+)?\s*=(?!=)\s*)*")
_FUNCTION = re.compile(rf"(?:async\s+)?function\s{{0,99}}(?P<name>{_ID})?\s{{0,99}}\(")
_ARROW = re.compile(rf"(?:async\s{{0,99}})?(?:(?P<open>\()|(?<![\w$])(?P<single>{_ID})\s*=>)")
_REFERENCE = re.compile(rf"(?P<name>{_ID})\s*(?=[;,\n}}]|\Z)")
_PARAMETER = re.compile(rf"(?P<rest>\.\.\.)?(?:(?P<name>{_ID})|\{{[\s\S]*?\}}|\[[\s\S]*?\])\s*(?P<default>=(?!=)|\Z)")
_TAGS = re.compile(r"@(?:param|arg|argument|returns?)\b")
_MOST_PLACES = 8  # how many exports, and how many definitions of a name, are looked at
_MOST_LIST = 20_000  # characters of a list of parameters or members
_NO_ONE = -1


@dataclass(frozen=True, slots=True)
class NodeParameter:
    """A parameter of a function.

    Attributes:
        name: The name; "" if the parameter is destructured.
        optional: Whether the code has a default for it.
        rest: Whether it takes any number of arguments.
    """

    name: str
    optional: bool = False
    rest: bool = False


@dataclass(frozen=True, slots=True)
class ExportedFunction:
    """A function that a module exports.

    Attributes:
        name: The name in the code; "" if it has none there.
        parameters: The parameters; None if they cannot be read.
        comment: The text between the markers of the comment above the function or above its export; None without one.
    """

    name: str
    parameters: tuple[NodeParameter, ...] | None
    comment: str | None


def exported_function(names: Sequence[str], code: str) -> ExportedFunction | None:
    """Return the function that a module exports under one of the names, or by default; None if nothing is exported.

    The first name that is exported counts, as when the function is called.
    """
    text = without_comments(code)
    if not _SOMETHING.search(text):
        return None
    either = "|".join(map(re.escape, names))
    by_name = (list(_exported_by_name(re.escape(name), text)) for name in names)
    found = next(filter(None, by_name), None) or list(_by_default(text))
    named = next((each for each in found if each.parameters is not None), None)
    if named is None:  # a function in a module that is built by an expression
        named = next((each for each in _definitions(either, text) if each.parameters is not None), None)
        found += [] if named is None else [named]
    comment = None if named is None else _comment(code, named.places)
    if comment is None or named is None:
        comment = _comment_that_names(either, code) or comment
    if comment is None and named is None:
        comments = (_comment(code, each.places) for each in found)
        comment = next((each for each in comments if each is not None and _TAGS.search(each)), None)
    if named is None and comment is None and not found:
        return None
    return ExportedFunction(named.name if named else "", named.parameters if named else None, comment)


@dataclass(frozen=True, slots=True)
class _FunctionPlace:
    """A place where a function may be: its name, its parameters, and the positions above which its comment may be."""

    name: str
    parameters: tuple[NodeParameter, ...] | None
    places: tuple[int, ...]


def _exported_by_name(either: str, text: str) -> Iterator[_FunctionPlace]:
    for match in _first(rf"\bexport\s+(?:default\s+)?(?=(?:async\s+)?function\s+(?:{either})\s*\()", text):
        yield _value(text, match.end(), match.start())
    for match in _first(rf"\bexport\s+(?:const|let|var)\s+(?:{either})\s*=\s*", text):
        yield _value(text, match.end(), match.start())
    for match in _first(rf"(?<![\w$.])(?:module\.)?exports\.(?:{either})\s*=(?!=)\s*", text):
        yield from _exported_value(text, match.end(), match.start())
    for local in re.findall(rf"\bexport\s*\{{[^}}]{{0,2000}}?(?<![\w$])({_ID})\s+as\s+(?:{either})\b", text):
        yield from _definitions(re.escape(local), text)
    if re.search(rf"\bexport\s*\{{(?:[^}}]{{0,2000}},)?\s*(?:{either})\s*[,}}]", text):
        yield from _definitions(either, text)
    for match in _first(r"\bmodule\.exports\s*=\s*\{", text):
        yield from _members(either, text, match.end())


def _members(either: str, text: str, start: int) -> Iterator[_FunctionPlace]:
    """Yield the members with one of these names, of an object literal whose first member begins at `start`.

    Args:
        either: A regular expression that matches the names.
    """
    begin = start
    for part in _parts(text, start)[0]:
        member = re.match(rf"\s*(?:async\s+)?({either})\s*(?:(:)\s*|\(|\Z)", part)
        if member is not None:
            first, end = begin + len(part) - len(part.lstrip()), begin + member.end()
            if member[2]:
                yield from _exported_value(text, end, first)
            elif member[0].endswith("("):
                yield _FunctionPlace(member[1], _parameters(text, end), (first,))
            else:
                yield from _definitions(re.escape(member[1]), text)
        begin += len(part) + 1


def _by_default(text: str) -> Iterator[_FunctionPlace]:
    for match in _first(_DEFAULT, text):
        yield from _exported_value(text, match.end(), match.start())
    for local in re.findall(rf"\bexport\s*\{{[^}}]{{0,2000}}?(?<![\w$])({_ID})\s+as\s+default\b", text):
        yield from _definitions(re.escape(local), text)


def _exported_value(text: str, start: int, statement: int) -> Iterator[_FunctionPlace]:
    """Yield what an exported value refers to, and then the value itself."""
    start = _CHAINED.match(text, start).end()  # type: ignore[union-attr]
    reference = _REFERENCE.match(text, start)
    if reference is not None:
        for each in _definitions(re.escape(reference["name"]), text):
            yield _FunctionPlace(each.name, each.parameters, (*each.places, statement))
    else:
        yield _value(text, start, statement)


def _definitions(either: str, text: str) -> list[_FunctionPlace]:
    """Return the functions and variables with one of the names, those with readable parameters first."""
    found = [
        _value(text, match.end(), match.start())
        for match in _first(rf"(?<![\w$.])(?=(?:async\s+)?function\s+(?:{either})\s*\()", text)
        if not re.search(r"\basync\s+\Z", text[max(0, match.start() - 20) : match.start()])
    ]
    for match in _first(rf"\b(?:const|let|var)\s+({either})\s*=(?!=)\s*", text):
        value = _value(text, match.end(), match.start())
        found.append(_FunctionPlace(match[1], value.parameters, value.places))
    for match in _first(rf"(?<![\w$.'\"])({either})\s*:\s*(?=(?:async\s+)?(?:function\b|\())", text):
        value = _value(text, match.end(), match.start())
        found.append(_FunctionPlace(match[1], value.parameters, value.places))
    return sorted(found, key=lambda each: each.parameters is None)


def _value(text: str, start: int, statement: int) -> _FunctionPlace:
    """Return the function that begins at `start`, in a statement that begins at `statement`."""
    if function := _FUNCTION.match(text, start):
        return _FunctionPlace(function["name"] or "", _parameters(text, function.end()), (statement,))
    arrow = _ARROW.match(text, start)
    if arrow is None:
        return _FunctionPlace("", None, (statement,))
    if arrow["single"]:
        return _FunctionPlace("", (NodeParameter(arrow["single"]),), (statement,))
    end = _parts(text, arrow.end())[1]
    return _FunctionPlace(
        "", _parameters(text, arrow.end()) if re.match(r"\)\s*=>", text[end : end + 80]) else None, (statement,)
    )


def _parameters(text: str, start: int) -> tuple[NodeParameter, ...] | None:
    """Return the parameters in the list that begins at `start`; None if there is one of an unknown form."""
    listed = [re.sub(r"/\*.*?\*/", "", part, flags=re.DOTALL).strip() for part in _parts(text, start)[0]]
    if listed and not listed[-1]:
        listed.pop()
    found = [_PARAMETER.match(each) for each in listed]
    if any(each is None for each in found):
        return None
    return tuple(
        NodeParameter(each["name"] or "", each["default"] == "=", each["rest"] is not None)
        for each in found
        if each is not None
    )


def _parts(text: str, start: int) -> tuple[list[str], int]:
    """Return the texts between the commas of a list that begins at `start`, and the position of its closing bracket."""
    depth, quote, begin = 0, "", start
    parts: list[str] = []
    for at in range(start, min(len(text), start + _MOST_LIST)):
        sign = text[at]
        if quote:
            quote = "" if sign == quote and text[at - 1] != "\\" else quote
        elif sign in "'\"`":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
            if depth == _NO_ONE:
                return [*parts, text[begin:at]], at
        elif sign == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    return parts, len(text)


def _comment(code: str, places: Sequence[int]) -> str | None:
    """Return the comment directly above one of the places, one with tags if there is one."""
    found = [each for place in places if (each := _comment_above(code, place)) is not None]
    return next((each for each in found if _TAGS.search(each)), found[0] if found else None)


def _comment_above(code: str, place: int) -> str | None:
    end = code.rfind("*/", 0, place)
    start = code.rfind("/**", 0, max(0, end))
    if start < 0 or code[end + 2 : place].strip():
        return None
    return code[start + 3 : end]


def _comment_that_names(either: str, code: str) -> str | None:
    """Return the comment that says which function it describes, as in `@function slugify`."""
    start = code.find("/**")
    while start >= 0 and (end := code.find("*/", start + 3)) >= 0:
        if re.search(rf"@(?:function|func|name)[ \t]+(?:{either})[ \t]*$", code[start + 3 : end], re.MULTILINE):
            return code[start + 3 : end]
        start = code.find("/**", end)
    return None


def _first(pattern: str, text: str) -> Iterator[re.Match[str]]:
    """Yield the first few matches of a pattern."""
    return islice(re.finditer(pattern, text), _MOST_PLACES)
