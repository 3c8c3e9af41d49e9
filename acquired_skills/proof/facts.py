"""The output of an admission's boxes. It comes from untrusted code, so it is typed and bounded before use.

`acquired_skills.in_box.harness.rehearse` and `acquired_skills.in_box.judge.judge` produce it. Output that does not
validate is rejected.
"""

from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

T = TypeVar("T")
_STRICT = ConfigDict(strict=True, extra="forbid")
_Id = Annotated[str, Field(max_length=2_000)]
_Text = Annotated[str, Field(max_length=4_000)]
_Line = Annotated[str, Field(max_length=500)]
_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


def is_call(found: dict[str, Any]) -> bool:
    """Return whether it has the fields of a call of `acquired_skills.in_box.call_data`."""
    return (
        isinstance(found.get("arguments"), list)
        and isinstance(found.get("named"), dict)
        and isinstance(found.get("files", {}), dict)
        and isinstance(found.get("place", ""), str)
    )


def _call(found: dict[str, Any]) -> dict[str, Any]:
    if not is_call(found):
        raise ValueError("it is not a call")
    return found


@with_config(_STRICT)
class ResultOfTest(TypedDict):
    """The result of one test in one run."""

    outcome: Literal["passed", "failed", "skipped", "xfail", "timeout", "exited", "unreported", "reached", "missed"]
    text: _Text
    seconds: _Seconds


@with_config(_STRICT)
class RunResults(TypedDict):
    """One run of the tests: on a stub (``raises``, ``none``, ``sentinel``), on the ``skill``, or on a table (its
    number).
    """

    kind: Annotated[str, Field(max_length=20)]
    results: dict[_Id, ResultOfTest]


@with_config(_STRICT)
class DerivedSchema(TypedDict):
    """JSON Schemas of the arguments and of the value.

    `acquired_skills.model.input_schema` and `acquired_skills.model.output_schema` decide whether they can be used.
    """

    parameters: dict[str, Any]
    plain: bool
    returns: NotRequired[dict[str, Any]]


@with_config(_STRICT)
class RecordedCall(TypedDict):
    """One call of the tests as plain JSON: arguments, and a value or the name of an exception's type."""

    positional: list[Any]
    named: dict[str, Any]
    value: NotRequired[Any]
    raised: NotRequired[_Line]


@with_config(_STRICT)
class ReplayCall(TypedDict):
    """One call of one test as packed data, and its answer if that was always the same."""

    test: _Id
    call: Annotated[dict[str, Any], AfterValidator(_call)]
    answer: NotRequired[dict[str, Any]]


@with_config(_STRICT)
class Observations(TypedDict, total=False):
    """What the skill returned to its tests.

    `calls` were kept, and `missed` counts those that were not. `asked` is as in `acquired_skills.in_box.recorder`.
    `seed` is that of the run in which the calls were made.
    """

    typed: bool
    unsendable: _Line
    missed: Annotated[int, Field(ge=0)]
    calls: Annotated[list[RecordedCall], Field(max_length=1_000)]
    asked: Annotated[list[ReplayCall], Field(max_length=5_000)]
    seed: int


@with_config(_STRICT)
class BoxFacts(TypedDict):
    """Everything that one box reported. A missing key was not reached."""

    phase: Literal["import", "collection", "tests"]
    runs: Annotated[list[RunResults], Field(max_length=500)]
    unknown: NotRequired[Annotated[list[dict[str, Any]], Field(max_length=100_000)]]
    done: NotRequired[bool]
    ended: NotRequired[_Line]
    import_error: NotRequired[_Text]
    schema: NotRequired[DerivedSchema]
    schema_error: NotRequired[_Text]
    collection_errors: NotRequired[Annotated[list[_Text], Field(max_length=1_000)]]
    tests: NotRequired[Annotated[list[_Id], Field(max_length=100_000)]]
    returned: NotRequired[Observations]


@with_config(_STRICT)
class IsolatedAnswers(TypedDict):
    """The answers of one program in the order of the calls, and the time they took. None: it could not be loaded."""

    answers: list[dict[str, Any]] | None
    seconds: _Seconds


_FACTS = TypeAdapter(BoxFacts)
_TOLD = TypeAdapter(IsolatedAnswers)


def facts_of(value: Any) -> BoxFacts:
    """Validate the value of a box. Raises ValueError with one line that says what is invalid."""
    return _fits(_FACTS, value)


def isolated_answers_of(value: Any) -> IsolatedAnswers:
    """Validate the value of the box of one program. Raises ValueError."""
    return _fits(_TOLD, value)


def _fits(adapter: TypeAdapter[T], value: Any) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:80] for part in first["loc"]) or "the whole value"
        raise ValueError(f"{ascii(where)[1:-1]}: {first['msg']}") from None
