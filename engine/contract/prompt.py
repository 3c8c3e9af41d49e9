"""`PromptSpec`: a template with named places, and `render`, which fills them and does nothing else (REG-6).

`str.format` would let a template read attributes and items of the values it is given; this one knows names alone.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.contract.spec import SafetyClass

_PART = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TemplateError(ValueError):
    """A template that asks for more than names, or whose braces do not match."""


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """One prompt.

    template: text with ``{name}`` for each variable; ``{{`` and ``}}`` are braces.
    variables: the names it takes. locale: of the text, such as ``"en"``; "" where that does not matter.
    safety_class: of what the prompt makes a model do. desc: for people who choose one.

    Raises TemplateError for a template that cannot be rendered, or that names a variable that is not listed.
    """

    spec_id: str
    template: str
    variables: tuple[str, ...] = ()
    locale: str = ""
    tags: tuple[str, ...] = ()
    safety_class: SafetyClass = "LOW"
    desc: str = ""

    def __post_init__(self) -> None:
        unlisted = [name for name in names_in(self.template) if name not in self.variables]
        if self.variables and unlisted:
            raise TemplateError(f"the template names {', '.join(unlisted)}, which variables does not list")

    def render(self, values: Mapping[str, Any]) -> str:
        """The text. A variable without a value stays visible as ``{name}``; values are never read as templates."""
        return render(self.template, values)


def render(template: str, values: Mapping[str, Any]) -> str:
    """The template with `str` of each value in its place, in one pass. Raises TemplateError.

    Attributes, items, conversions and format specs are refused, whether or not there is a value for them.
    """

    def fill(match: re.Match[str]) -> str:
        part = match.group()
        if part in {"{{", "}}"}:
            return part[0]
        name = _name(part)
        return str(values[name]) if name in values else part

    return _PART.sub(fill, template)


def names_in(template: str) -> list[str]:
    """The variables of a template, each once, in order. Raises TemplateError."""
    parts = (match.group() for match in _PART.finditer(template))
    return list(dict.fromkeys(_name(part) for part in parts if part not in {"{{", "}}"}))


def _name(part: str) -> str:
    if part in {"{", "}"}:
        raise TemplateError(f"a single {part} stands in the template; write {part}{part} for the character")
    if not _NAME.fullmatch(part[1:-1]):
        raise TemplateError(f"{part[:80]} is not the name of a variable; a template may name variables, nothing else")
    return part[1:-1]
