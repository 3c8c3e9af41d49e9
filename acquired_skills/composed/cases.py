"""The cases that prove a pipeline: what goes in, what the world is said to answer, what comes out, and what is asked.

    [{"arguments": {"url": "https://example.com"},
      "steps": {"fetch": {"title": "Example"}},                      outputs in the place of calls
      "asked": {"fetch": {"url": "https://example.com"}},            what those calls must have been asked
      "expect": "Example"}]

A step is named by its name, or, where it is done several times, by its place (`titles.0.fetch`).
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from acquired_skills.composed.mapping import NoMapping, strict
from acquired_skills.composed.pipeline import BadPipeline, told

MOST_BYTES = 256 << 10
MOST_CASES = 50
DEEPEST_JSON = 32
_Place = Annotated[str, Field(min_length=1, max_length=300)]


class Case(BaseModel):
    """One run. expect: its output, compared when it is given. asked: inputs of steps, by name or place."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    arguments: dict[str, Any] = Field(default_factory=dict)
    steps: dict[_Place, Any] = Field(default_factory=dict)
    asked: dict[_Place, dict[str, Any]] = Field(default_factory=dict)
    expect: Any = None

    @property
    def expects(self) -> bool:
        return "expect" in self.model_fields_set


_CASES = TypeAdapter(Annotated[list[Case], Field(min_length=1, max_length=MOST_CASES)])


def read_cases(text: str) -> list[Case]:
    """The cases of a JSON text. Raises BadPipeline."""
    try:
        cases = _CASES.validate_python(strict(text, MOST_BYTES, DEEPEST_JSON))
    except NoMapping as error:
        raise BadPipeline([f"The cases cannot be read: {error}."]) from None
    except ValidationError as error:
        raise BadPipeline(told(error)) from None
    empty = [str(number) for number, case in enumerate(cases, 1) if not case.expects and not case.asked]
    if empty:
        raise BadPipeline([f"Case {', '.join(empty)} asserts nothing: give `expect`, `asked`, or both."])
    return cases
