"""Finds the parameters of a program that its author describes but passes in no call (SKILL-22).

Calls are varied only in the arguments that they have. So nothing would show a fault in an option that no case uses.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from acquired_skills.model.proposal import ProposalProblem

_MOST_NAMED = 8


def unused_parameters(schema: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the parameters in a schema that occur in none of the calls, such as ``options.width``."""
    return list(_unused(schema, calls, ""))


def unused_problems(unused: Sequence[str]) -> Iterator[ProposalProblem]:
    """Yield a problem if there are such parameters."""
    if unused:
        named = ", ".join(f"`{each}`" for each in unused[:_MOST_NAMED])
        more = f" and {len(unused) - _MOST_NAMED} more" if len(unused) > _MOST_NAMED else ""
        text = (
            f"No case passes {named}{more}, so nothing shows what they do. Add a case for each, or remove its line "
            "from the comment."
        )
        yield ProposalProblem("cases", text)


def _unused(schema: Mapping[str, Any], values: Iterable[Any], inside: str) -> Iterator[str]:
    given = [value for value in values if isinstance(value, Mapping)]
    for name, inner in schema.get("properties", {}).items():
        found = [value[name] for value in given if name in value]
        if not found:
            yield inside + name
        else:
            yield from _unused(inner, found, f"{inside}{name}.")
