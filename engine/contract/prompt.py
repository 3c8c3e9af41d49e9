"""`PromptSpec`: a prompt template with named variables, and `render`, which substitutes them (REG-6).

Unlike with `str.format`, a template cannot read attributes or items of the values.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.contract.spec import SafetyClass

_PART = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TemplateError(ValueError):
    """The template has unmatched braces, or braces around something that is not the name of a variable."""


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """A prompt: a text template with named variables.

    Attributes:
        template: Text with ``{name}`` for each variable; ``{{`` and ``}}`` are literal braces.
        variables: The names of its variables.
        locale: The language of the text, such as ``"en"``; "" for any.
        safety_class: How dangerous the actions are that the prompt asks a model to take.
        desc: A description for people.

    Raises:
        TemplateError: The template cannot be rendered, or uses a variable that is not listed.
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
            raise TemplateError(f"the template uses {', '.join(unlisted)}, which `variables` does not list")

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text with the values filled in. Variables without a value stay as they are, as in ``{name}``."""
        return render(self.template, values)


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return the template with each variable replaced by `str` of its value, in one pass.

    Raises:
        TemplateError: The template uses attributes, items, conversions or format specs, or has unmatched braces.
    """

    def fill(match: re.Match[str]) -> str:
        part = match.group()
        if part in {"{{", "}}"}:
            return part[0]
        name = _name(part)
        return str(values[name]) if name in values else part

    return _PART.sub(fill, template)


def names_in(template: str) -> list[str]:
    """Return the variables of a template, without duplicates, in order.

    Raises:
        TemplateError: The template is invalid.
    """
    parts = (match.group() for match in _PART.finditer(template))
    return list(dict.fromkeys(_name(part) for part in parts if part not in {"{{", "}}"}))


def _name(part: str) -> str:
    if part in {"{", "}"}:
        raise TemplateError(f"the template has an unmatched {part}; to get the character itself, write {part}{part}")
    if not _NAME.fullmatch(part[1:-1]):
        raise TemplateError(f"{part[:80]} is not the name of a variable; only variables may be in braces")
    return part[1:-1]
