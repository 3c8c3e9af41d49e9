"""`Document`: what a search can find, and how it is made from a tool's name, description and parameters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.retrieval.terms import spelled_out

DEEPEST = 4  # levels of nested parameters that are read
MOST_CHOICES = 30  # values of one enum that are read
MOST_CHARACTERS = 8_000  # characters read from each part of a document, because servers and models may send long texts


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a document, with its weight for BM25F.

    Attributes:
        usual: The typical number of terms in such a field.
        b: How much a greater number of terms reduces the score, from 0 to 1.
    """

    text: str
    weight: float = 1.0
    usual: float = 12.0
    b: float = 0.75


@dataclass(frozen=True, slots=True)
class Document:
    """Something that a search can find, such as a skill or a tool.

    Attributes:
        id: Identifies the document. It is also its exact name, unless `name` is set.
        text: The description.
        details: Names and descriptions of the parameters.
        choices: Allowed values of the parameters.
        examples: Requests for which this document is the right result. Each gets its own vector.
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
        """The name, split into words, and the description."""
        return f"{spelled_out(self.called)}: {self.text}"

    @property
    def rest(self) -> str:
        return " ".join((self.details, self.choices, *self.examples))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields for BM25.

        The weights were tuned on half of the requests of BFCL (the Berkeley Function-Calling Leaderboard). Most weights
        hardly matter.
        """
        return (
            Field(self.called, weight=2.0, usual=3.0, b=0.3),
            Field(self.text, weight=2.0),
            Field(self.details, usual=20.0),
            Field(self.choices, usual=4.0),
            Field(" ".join(self.examples)),
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The texts that a sentence encoder compares with a request."""
        return (f"{self.head} {self.details}".strip(), *self.examples)

    @property
    def embedded(self) -> tuple[str, ...]:
        """The texts to embed, each as one vector. The first one repeats the head to outweigh the parameters."""
        return (f"{self.head} {self.head} {self.details} {self.choices}".strip(), *self.examples)


def tool_document(
    name: str, description: str, parameters: Mapping[str, Any], examples: tuple[str, ...] = (), id_: str = ""
) -> Document:
    """Return the document of a tool.

    Args:
        parameters: The JSON Schema of the tool's arguments.
        id_: The id of the document. Defaults to the name.
    """
    found = list(_parameters(parameters, DEEPEST))
    details = " ".join(f"{parameter} {text}".strip() for parameter, text, _ in found)
    choices = " ".join(value for _, _, values in found for value in values)
    text, details, choices = (part[:MOST_CHARACTERS] for part in (description, details, choices))
    return Document(id_ or name, text, examples, details, choices, name)


def _parameters(schema: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name, description and choices of each parameter, each followed by its nested parameters."""
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
