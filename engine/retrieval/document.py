"""`Document`: what can be found, and how a tool's parts are made into one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.retrieval.field import Field
from engine.retrieval.terms import spelled_out

DEEPEST = 4  # levels of nested parameters that are read
MOST_CHOICES = 30  # values of one enum that are read
MOST_CHARACTERS = 8_000  # of one part: what comes from a server or a model may be long


@dataclass(frozen=True, slots=True)
class Document:
    """Something to find.

    id: also its exact name, unless `name` is another. text: what it is. details: names and descriptions of its
    parameters. choices: the values that these may take. examples: requests that it answers, each with its own vector.
    """

    id: str
    text: str
    examples: tuple[str, ...] = ()
    details: str = ""
    choices: str = ""
    name: str = ""

    @property
    def called(self) -> str:
        return self.name or self.id

    @property
    def head(self) -> str:
        """Its name and what it is."""
        return f"{spelled_out(self.called)}: {self.text}"

    @property
    def rest(self) -> str:
        return " ".join((self.details, self.choices, *self.examples))

    @property
    def fields(self) -> tuple[Field, ...]:
        """For BM25. The weights were chosen on one half of BFCL's requests; most of them change recall little."""
        return (
            Field(self.called, weight=2.0, usual=3.0, b=0.3),
            Field(self.text, weight=2.0),
            Field(self.details, usual=20.0),
            Field(self.choices, usual=4.0),
            Field(" ".join(self.examples)),
        )

    @property
    def embedded(self) -> tuple[str, ...]:
        """Each has a vector of its own. The head comes twice, so that many parameters do not drown it."""
        return (f"{self.head} {self.head} {self.details} {self.choices}".strip(), *self.examples)


def tool_document(
    name: str, description: str, parameters: Mapping[str, Any], examples: tuple[str, ...] = (), id_: str = ""
) -> Document:
    """A tool by its name, description and the JSON Schema of its arguments. id_: its name, when not given."""
    found = list(_parameters(parameters, DEEPEST))
    details = " ".join(f"{parameter} {text}".strip() for parameter, text, _ in found)
    choices = " ".join(value for _, _, values in found for value in values)
    text, details, choices = (part[:MOST_CHARACTERS] for part in (description, details, choices))
    return Document(id_ or name, text, examples, details, choices, name)


def _parameters(schema: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str, list[str]]]:
    """Name, description and choices of each parameter, nested ones after the one they are in."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not depth:
        return
    for name, inner in properties.items():
        if isinstance(inner, Mapping):
            items = inner.get("items")
            items = items if isinstance(items, Mapping) else {}
            choices = inner.get("enum") or items.get("enum")
            values = choices[:MOST_CHOICES] if isinstance(choices, list) else []
            yield str(name), str(inner.get("description") or ""), [str(value) for value in values]
            yield from _parameters(inner, depth - 1)
            yield from _parameters(items, depth - 1)
