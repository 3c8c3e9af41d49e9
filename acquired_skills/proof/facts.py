"""Validates the output of the boxes of an admission. It comes from untrusted code, so it must fit bounded types.

`acquired_skills.in_box.harness.rehearse` and `acquired_skills.in_box.judge.judge` produce the output. Output that does
not validate is rejected.
"""

from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from acquired_skills.in_box.function_forms import Form
from acquired_skills.model.skill import HINT

T = TypeVar("T")
_STRICT = ConfigDict(strict=True, extra="forbid")
_Id = Annotated[str, Field(max_length=2_000)]
_Text = Annotated[str, Field(max_length=4_000)]
_Line = Annotated[str, Field(max_length=500)]
_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


def is_call(found: dict[str, Any]) -> bool:
    """Return whether a value from a box has the fields of a call, as defined in `acquired_skills.in_box.call_data`."""
    return (
        isinstance(found.get("arguments"), list)
        and isinstance(found.get("named"), dict)
        and isinstance(found.get("files", {}), dict)
        and isinstance(found.get("place", ""), str)
        and isinstance(found.get("clock", ""), str)
        and _is_recording(found.get("tools", []))
    )


def _is_recording(found: Any) -> bool:
    """Return whether a value has the form of the rules of `acquired_skills.in_box.recorded_tools`."""
    return isinstance(found, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("tool"), str)
        and ("value" in each) != ("failed" in each)
        and isinstance(each.get("failed", {}), dict)
        for each in found
    )


def _call(found: dict[str, Any]) -> dict[str, Any]:
    if not is_call(found):
        raise ValueError("it is not a call")
    return found


@with_config(_STRICT)
class ResultOfTest(TypedDict):
    """The result of one test in one run."""

    outcome: Literal["passed", "failed", "skipped", "xfail", "timeout", "exited", "unreported", "reached", "unanswered"]
    text: _Text
    seconds: _Seconds


@with_config(_STRICT)
class RunResults(TypedDict):
    """The results of one run of the tests.

    `kind` says what the tests ran on: ``skill``, a stub (``raises``, ``none`` or ``sentinel``), or the number of an
    answer table.
    """

    kind: Annotated[str, Field(max_length=20)]
    results: dict[_Id, ResultOfTest]


@with_config(_STRICT)
class DerivedSchema(TypedDict):
    """JSON Schemas of the arguments and of the result, and inferred hints of parameters that have none in the code.

    `acquired_skills.model.skill_schemas` decides whether they can be used.
    """

    parameters: dict[str, Any]
    plain: bool
    form: NotRequired[Form]
    returns: NotRequired[dict[str, Any]]
    inferred: NotRequired[dict[_Id, Annotated[str, Field(pattern=f"^{HINT}$")]]]


@with_config(_STRICT)
class RecordedCall(TypedDict):
    """One call that the tests make, as plain JSON: its arguments, and its value or the name of the exception's type."""

    positional: list[Any]
    named: dict[str, Any]
    value: NotRequired[Any]
    raised: NotRequired[_Line]


@with_config(_STRICT)
class ReplayCall(TypedDict):
    """One call that one test makes, as packed data, and its answer if the answer was the same every time."""

    test: _Id
    call: Annotated[dict[str, Any], AfterValidator(_call)]
    answer: NotRequired[dict[str, Any]]


@with_config(_STRICT)
class Observations(TypedDict, total=False):
    """What was observed while the tests called the skill.

    `calls` are the recorded calls, and `unrecorded` is the number of calls that were not recorded. For `replay_calls`,
    see `acquired_skills.in_box.recorder`. `seed` is the seed of the run in which the calls were made.
    """

    typed: bool
    form: Form
    unsendable: _Line
    unrecorded: Annotated[int, Field(ge=0)]
    calls: Annotated[list[RecordedCall], Field(max_length=1_000)]
    replay_calls: Annotated[list[ReplayCall], Field(max_length=5_000)]
    seed: int


@with_config(_STRICT)
class SharedState(TypedDict):
    """A test whose result depends on other tests.

    `passes` says whether the test passes after the test `other`. When the test runs alone, the opposite happens.
    `other` is "" if several tests together change the result. `files` says whether the test
    passes only with the files that `other` leaves behind. (Such files are removed before each test.)
    """

    test: _Id
    other: _Id
    passes: bool
    files: NotRequired[bool]


@with_config(_STRICT)
class BoxFacts(TypedDict):
    """Everything that one box reported. If the box ended early, the keys that it did not report are missing."""

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
    observations: NotRequired[Observations]
    shared_state: NotRequired[Annotated[list[SharedState], Field(max_length=100)]]
    left_outside: NotRequired[Annotated[list[_Line], Field(max_length=100)]]


@with_config(_STRICT)
class IsolatedAnswers(TypedDict):
    """The answers of one program in the order of the calls, and the time in seconds that the calls took.

    The answers are None if the program could not be loaded.
    """

    answers: list[dict[str, Any]] | None
    seconds: _Seconds


_FACTS = TypeAdapter(BoxFacts)
_ANSWERS = TypeAdapter(IsolatedAnswers)


def facts_of(value: Any) -> BoxFacts:
    """Validate the output of a box.

    Raises:
        ValueError: The output is invalid. The message says in one line what is wrong.
    """
    return _fits(_FACTS, value)


def isolated_answers_of(value: Any) -> IsolatedAnswers:
    """Validate the output of a box that ran one program.

    Raises:
        ValueError: The output is invalid.
    """
    return _fits(_ANSWERS, value)


def _fits(adapter: TypeAdapter[T], value: Any) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:80] for part in first["loc"]) or "the whole value"
        raise ValueError(f"{ascii(where)[1:-1]}: {first['msg']}") from None
