"""Values that go from one box to another come out as they went in, or do not go."""

import datetime as dt
import json
import types
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from acquired_skills.in_box.packing import NotPackable, packed, packed_exception, unpacked, unpacked_exception
from acquired_skills.model.parsed import ParsedSource
from acquired_skills.proof.declarations import declarations
from acquired_skills.proof.impure_tests import impure_tests
from acquired_skills.proof.wrong_answers import WAYS, wrong_answer

pytestmark = pytest.mark.spec("SKILL-7")
HERE = types.ModuleType("nowhere")

ATOMS = (
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False)
    | some.text()
    | some.binary()
    | some.dates()
    | some.datetimes()
    | some.decimals(allow_nan=False)
    | some.fractions()
    | some.timedeltas()
    | some.complex_numbers(allow_nan=False)
)
KEYS = some.integers() | some.text() | some.tuples(some.integers(), some.text())
VALUES = some.recursive(
    ATOMS,
    lambda inner: (
        some.lists(inner)
        | some.tuples(inner, inner)
        | some.dictionaries(KEYS, inner)
        | some.sets(KEYS)
        | some.frozensets(KEYS)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_is_the_same_with_its_types_after_it_went_as_json(value: Any) -> None:
    again = unpacked(json.loads(json.dumps(packed(value, "nowhere"))), HERE)
    assert repr(again) == repr(value) or (type(again) is type(value) and again == value)


@given(VALUES)
def test_a_wrong_answer_can_be_made_of_any_and_differs(value: Any) -> None:
    wire = packed(value, "nowhere")
    made = [wrong_answer({"value": wire}, way) for way in range(WAYS)]
    assert any(each != {"value": wire} for each in made)
    for each in made:
        unpacked(json.loads(json.dumps(each["value"])), HERE)


def test_some_wrong_answer_is_wrong_in_every_part() -> None:
    """So that a test of any one part is told from a test of the kind."""
    wire = {"object": ["Span", {"first": 1, "last": {"date": "2026-01-08"}, "both": [1, {"tuple": [2, 3]}]}]}
    made = [wrong_answer({"value": wire}, way)["value"]["object"][1] for way in range(WAYS)]
    assert any(each["last"] != {"date": "2026-01-08"} and each["first"] != 1 for each in made)
    assert any(
        len(each["both"]) == 2 and each["both"][0] != 1 and each["both"][1] != {"tuple": [2, 3]} for each in made
    )


def test_what_has_no_plain_form_does_not_go() -> None:
    deep: list[Any] = []
    deep.append(deep)
    for value in (object(), iter([1]), lambda: 1, deep, {1: object()}):
        with pytest.raises(NotPackable):
            packed(value, "nowhere")


def test_a_class_that_equals_everything_does_not_go_along() -> None:
    class All(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    again = unpacked(packed(All("x"), "nowhere"), HERE)
    assert type(again) is str
    assert again != "y"


def test_an_exception_comes_as_the_nearest_type_that_is_known() -> None:
    class Own(KeyError):
        pass

    again = unpacked_exception(packed_exception(Own("k"), "nowhere"), HERE)
    assert type(again) is KeyError
    assert again.args == ("k",)


@pytest.mark.parametrize("value", [Decimal("0.10"), Fraction(1, 3), Path("a/b"), dt.time(1, 2), range(3), float("inf")])
def test_kinds_of_the_standard_library_go(value: object) -> None:
    assert unpacked(packed(value, "nowhere"), HERE) == value


def test_only_what_is_declared_and_computes_nothing_is_taken_from_a_skill() -> None:
    source = (
        "import os\nimport enum\nfrom pydantic import BaseModel, Field\nLIMIT: int = 3\nNOW = os.getpid()\n\n"
        "class Kind(enum.Enum):\n    A = 'a'\n\nclass Bad(ValueError):\n    def __init__(self): os._exit(0)\n\n"
        "class Item(BaseModel):\n    name: str = Field('x', description='d')\n\n"
        "class Worse(BaseModel):\n    name: str = os.getenv('x')\n\nclass Able(BaseModel):\n    def go(self): os._exit(0)\n\n"
        "def work(): os._exit(0)\n"
    )
    taken = declarations(ParsedSource.parse(source).tree)
    for name in ("LIMIT = 3", "class Kind", "class Bad(ValueError)", "class Item"):
        assert name in taken
    for name in ("os", "NOW", "Worse", "Able", "work"):
        assert name not in taken


def test_tests_that_patch_are_told_by_reading_them() -> None:
    source = (
        "def helper(monkeypatch): monkeypatch.setattr('a.b', 1)\ndef test_a(monkeypatch): helper(monkeypatch)\n"
        "def test_b(monkeypatch, tmp_path): monkeypatch.chdir(tmp_path)\ndef test_c(caplog): pass\ndef test_d(): pass\n"
    )
    assert impure_tests(ParsedSource.parse(source)) == {"helper", "test_a", "test_c"}
