"""Validation of arguments explains every error, takes linear time, and fetches no remote schemas."""

import string
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.spec import ToolSpec
from engine.dispatch.validate import Validators
from engine.registry.decorate import tool
from tests.dispatch.pipeline_fixture import open_pipeline


class Language(StrEnum):
    PYTHON = "python"
    BASH = "bash"


@dataclass
class Point:
    x: int
    y: int


RAN: list[object] = []


@tool()
async def work(
    language: Language, code: str, points: list[Point] | None = None, mode: Literal["a", "b"] = "a", n: int = 1
) -> None:
    """Work.

    Args:
        language: What to run.
        code: The program.
        points: Where.
    """
    RAN.append(code)


def spec_of(**properties):
    return ToolSpec("t", "d", {"type": "object", "properties": properties, "additionalProperties": False})


def refusal(spec, arguments):
    with pytest.raises(ToolFailure) as caught:
        Validators().check(spec, arguments)
    assert not caught.value.may_have_started
    return caught.value


@pytest.mark.spec("CALL-3")
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"language": "python"}, ["- `code` is missing: expected string (The program.)."]),
        ({"code": "x"}, ['- `language` is missing: expected one of "python", "bash" (What to run.).']),
        ({"language": "perl", "code": "x"}, ['- `language`: given "perl", expected one of "python", "bash".']),
        ({"language": "bash", "code": 5}, ["- `code`: given 5, expected string."]),
        (
            {"language": "bash", "code": "x", "points": [{"x": 1, "y": 2}, {"x": "1", "y": 2}]},
            ['- `points[1].x`: given "1", expected integer.'],
        ),
        ({"language": "bash", "code": "x", "mode": "c"}, ['- `mode`: given "c", expected one of "a", "b".']),
        ({"language": "bash", "code": "x", "cod": 1}, ["- `cod` is not known: given 1", "(nearest: code)"]),
        ({"language": "bash", "code": "x", "n": None}, ["- `n`: given null, expected integer."]),
    ],
)
async def test_the_error_names_the_field_what_was_given_and_what_is_expected(tmp_path, arguments, lines):
    RAN.clear()
    async with open_pipeline(tmp_path, [work]) as h:
        result = await h.call("work", **arguments)
    assert result.failure.failure_class is FailureClass.DIAGNOSTIC
    assert result.failure.reason == "invalid_arguments"
    assert not result.failure.may_have_started
    assert (result.audit.end, result.audit.attempts) == ("refused", 0)
    assert RAN == []
    for line in lines:
        assert line in result.error


@pytest.mark.spec("CALL-3")
async def test_several_errors_are_reported_together_and_quoted_values_are_limited(tmp_path):
    async with open_pipeline(tmp_path, [work]) as h:
        result = await h.call("work", language="x" * 100_000, n="1")
    assert "`code` is missing" in result.error
    assert "`n`: given" in result.error
    assert "(100002 characters)" in result.error
    assert len(result.error) < 2000


@pytest.mark.spec("CALL-3")
@pytest.mark.parametrize(
    "arguments",
    [{"code": object()}, {1: 2}, None, "text", [1], {"n": 10**400}],
    ids=["an object of Python's", "a number as a name", "nothing", "a text", "a list", "a huge number"],
)
def test_arguments_that_are_not_json_are_rejected_in_the_same_way(arguments):
    assert refusal(work.spec, arguments).reason == "invalid_arguments"


@pytest.mark.slow
@pytest.mark.spec("CALL-3")
@given(
    st.dictionaries(
        st.sampled_from(["language", "code", "points", "n", "zzz"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
@settings(max_examples=200, deadline=None)
def test_any_json_is_either_accepted_or_rejected_with_a_short_reason(arguments):
    said = ""
    try:
        Validators().check(work.spec, arguments)
    except ToolFailure as failure:
        said = f"{failure.reason}: {failure}"
    assert not said or said.startswith("invalid_arguments: work: ")
    assert len(said) < 6000


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ({"type": "integer", "minimum": 3}, 2, "a number of at least 3"),
        ({"type": "string", "maxLength": 2}, "abc", "at most 2 characters"),
        ({"type": "array", "minItems": 1}, [], "at least 1 items"),
        ({"const": 4}, 5, "expected 4"),
        ({"type": "string", "pattern": "^a+$"}, "b", "text that matches ^a+$"),
        ({"type": ["string", "null"]}, 1, "null or string"),
        ({"multipleOf": 5}, 7, "a multiple of 5"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, [], "string, or integer"),
        ({"not": {"type": "string"}}, "x", "`a`"),
    ],
)
def test_each_kind_of_violation_is_explained(field, value, expected):
    assert expected in str(refusal(spec_of(a=field), {"a": value}))


@pytest.mark.spec("CALL-12")
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(.*)*x$", "^([a-z]+)*[0-9]$", "^(a?){60}a{60}$"])
def test_a_pattern_prone_to_backtracking_is_checked_in_linear_time(pattern):
    validators, spec = Validators(), spec_of(a={"type": "string", "pattern": pattern})
    before = time.process_time()
    with pytest.raises(ToolFailure):
        validators.check(spec, {"a": "a" * 50_000 + "!"})
    assert time.process_time() - before < 5  # an exponential engine would need longer than the universe has


@pytest.mark.spec("CALL-12")
@pytest.mark.parametrize("pattern", ["(?=look)ahead", r"(a)\1"])
def test_a_pattern_that_needs_backtracking_makes_the_schema_unusable(pattern):
    failure = refusal(spec_of(a={"type": "string", "pattern": pattern}), {"a": "x"})
    assert (failure.failure_class, failure.reason) == (FailureClass.FATAL, "invalid_schema")


@pytest.mark.spec("CALL-12")
@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/schema.json",
        "https://json-schema.org/draft/2020-12/nothing",
        "file:///etc/passwd",
        "other.json",
    ],
)
def test_a_reference_out_of_the_schema_is_never_fetched(reference):
    failure = refusal(spec_of(a={"$ref": reference}), {"a": 1})
    assert failure.failure_class is FailureClass.FATAL
    assert failure.reason == "invalid_schema"


@pytest.mark.spec("CALL-12")
async def test_nothing_connects_while_a_schema_with_a_remote_reference_is_compiled(tmp_path):
    import asyncio

    connections = []
    server = await asyncio.start_server(lambda *_: connections.append(1), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    refusal(spec_of(a={"$ref": f"http://127.0.0.1:{port}/x"}), {"a": 1})
    await asyncio.sleep(0)
    server.close()
    assert connections == []


def test_an_invalid_schema_is_rejected_with_a_clear_error():
    assert refusal(spec_of(a={"type": "bogus"}), {"a": 1}).reason == "invalid_schema"


def test_validators_are_compiled_once_per_spec_and_evicted_beyond_the_capacity():
    validators = Validators(capacity=2)
    specs = [spec_of(**{letter: {"type": "integer"}}) for letter in string.ascii_lowercase[:3]]
    for spec in specs:
        validators.check(spec, {})
    assert len(validators._compiled) == 2
    kept = validators._compiled[id(specs[2])]
    validators.check(specs[2], {})
    assert validators._compiled[id(specs[2])] is kept
    validators.check(specs[0], {"a": 1})
    with pytest.raises(ToolFailure):
        validators.check(specs[0], {"b": 1})
