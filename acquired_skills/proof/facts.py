"""What comes out of the box of an admission: the word of untrusted code, so typed and bounded before it is used.

`acquired_skills.in_box.harness.admit` gathers it. Whatever does not fit here is no report.
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
    """Whether it has what a call of `acquired_skills.in_box.call_data` has."""
    return (
        isinstance(found.get("arguments"), list)
        and isinstance(found.get("named"), dict)
        and isinstance(found.get("files", {}), dict)
        and isinstance(found.get("place", ""), str)
    )


def _call(found: dict[str, Any]) -> dict[str, Any]:
    if not is_call(found):
        raise ValueError("it is no call")
    return found


@with_config(_STRICT)
class Result(TypedDict):
    """How one test went in one run."""

    outcome: Literal["passed", "failed", "skipped", "xfail", "timeout", "exited", "unreported", "reached", "missed"]
    text: _Text
    seconds: _Seconds


@with_config(_STRICT)
class Run(TypedDict):
    """One run of the tests: on a stub (``raises``, ``none``, ``sentinel``), the ``skill``, or a table by number."""

    kind: Annotated[str, Field(max_length=20)]
    results: dict[_Id, Result]


@with_config(_STRICT)
class Schema(TypedDict):
    """JSON Schemas of the arguments and of the value.

    `acquired_skills.model.input_schema` and `acquired_skills.model.output_schema` decide whether they can be used.
    """

    parameters: dict[str, Any]
    plain: bool
    returns: NotRequired[dict[str, Any]]


@with_config(_STRICT)
class Recorded(TypedDict):
    """One call that the tests made: what went in, and what came out, a value or the name of an exception's type."""

    positional: list[Any]
    named: dict[str, Any]
    value: NotRequired[Any]
    raised: NotRequired[_Line]


@with_config(_STRICT)
class Asked(TypedDict):
    """One call that one test made, as data, and its answer, when that was always the same."""

    test: _Id
    call: Annotated[dict[str, Any], AfterValidator(_call)]
    answer: NotRequired[dict[str, Any]]


@with_config(_STRICT)
class Returned(TypedDict, total=False):
    """What the skill returned to its tests. calls: those kept. missed: how many were not. asked: as
    `acquired_skills.in_box.call_data` has them. seed: of the run they were made in."""

    typed: bool
    unsendable: _Line
    missed: Annotated[int, Field(ge=0)]
    calls: Annotated[list[Recorded], Field(max_length=1_000)]
    asked: Annotated[list[Asked], Field(max_length=5_000)]
    seed: int


@with_config(_STRICT)
class Facts(TypedDict):
    """Everything; what is missing was not reached."""

    phase: Literal["import", "collection", "tests"]
    runs: Annotated[list[Run], Field(max_length=500)]
    unknown: NotRequired[Annotated[list[dict[str, Any]], Field(max_length=100_000)]]
    done: NotRequired[bool]
    ended: NotRequired[_Line]
    import_error: NotRequired[_Text]
    schema: NotRequired[Schema]
    schema_error: NotRequired[_Text]
    collection_errors: NotRequired[Annotated[list[_Text], Field(max_length=1_000)]]
    tests: NotRequired[Annotated[list[_Id], Field(max_length=100_000)]]
    returned: NotRequired[Returned]


@with_config(_STRICT)
class Told(TypedDict):
    """What one program answered to the calls, in their order, and how long that took. None: it could not be loaded."""

    answers: list[dict[str, Any]] | None
    seconds: _Seconds


_FACTS = TypeAdapter(Facts)
_TOLD = TypeAdapter(Told)


def facts_of(value: Any) -> Facts:
    """The value of the box as facts. Raises ValueError, one line that says what does not fit."""
    return _fits(_FACTS, value)


def told_of(value: Any) -> Told:
    """The value of the box of one program. Raises ValueError."""
    return _fits(_TOLD, value)


def _fits(adapter: TypeAdapter[T], value: Any) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:80] for part in first["loc"]) or "all of it"
        raise ValueError(f"{ascii(where)[1:-1]}: {first['msg']}") from None
