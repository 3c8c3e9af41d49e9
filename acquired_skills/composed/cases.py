"""Cases that prove a pipeline: arguments, simulated outputs of steps, and the expected output and inputs.

    [{"arguments": {"url": "https://example.com"},
      "steps": {"fetch": {"title": "Example"}},                      outputs that replace calls
      "asked": {"fetch": {"url": "https://example.com"}},            expected inputs of those calls
      "expect": "Example"}]

A step is identified by its name or, if it runs several times, by its place (`titles.0.fetch`).
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from acquired_skills.composed.mapping import InvalidMapping, read_bounded_json
from acquired_skills.composed.pipeline import InvalidPipeline, validation_messages

MOST_BYTES = 256 << 10
MOST_CASES = 50
DEEPEST_JSON = 32
_Place = Annotated[str, Field(min_length=1, max_length=300)]


class Case(BaseModel):
    """One test run of a pipeline.

    Attributes:
        expect: The expected output, if given.
        asked: The expected inputs of steps, by the name of the step or its place (`titles.0.fetch`).
    """

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
    """Parse cases from JSON text.

    Raises:
        InvalidPipeline: The cases are invalid.
    """
    try:
        cases = _CASES.validate_python(read_bounded_json(text, MOST_BYTES, DEEPEST_JSON))
    except InvalidMapping as error:
        raise InvalidPipeline([f"The cases cannot be read: {error}."]) from None
    except ValidationError as error:
        raise InvalidPipeline(validation_messages(error)) from None
    empty = [str(number) for number, case in enumerate(cases, 1) if not case.expects and not case.asked]
    if empty:
        raise InvalidPipeline([f"These cases assert nothing: {', '.join(empty)}. Add `expect`, `asked`, or both."])
    return cases
