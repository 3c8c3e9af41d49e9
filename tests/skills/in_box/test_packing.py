"""Packing a value in one box and unpacking it in another preserves the value, or it is not packed at all."""

import collections
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

from acquired_skills.in_box.packing import NotPackable, Packer, packed, packed_exception
from acquired_skills.in_box.unpacking import Unpacker, unpacked, unpacked_exception
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
        | some.builds(collections.deque, some.lists(inner), some.none() | some.integers(0, 9))
        | some.builds(collections.OrderedDict, some.dictionaries(KEYS, inner))
        | some.builds(collections.Counter, some.dictionaries(KEYS, some.integers()))
        | some.builds(collections.defaultdict, some.sampled_from([None, int, list]), some.dictionaries(KEYS, inner))
    ),
    max_leaves=12,
)


@given(VALUES)
def test_packing_and_unpacking_preserve_a_value_and_its_types(value: Any) -> None:
    again = unpacked(json.loads(json.dumps(packed(value, "nowhere"))), HERE)
    assert repr(again) == repr(value) or (type(again) is type(value) and again == value)


@given(VALUES)
def test_every_value_has_a_wrong_answer_that_differs(value: Any) -> None:
    wire = packed(value, "nowhere")
    made = [wrong_answer({"value": wire}, way) for way in range(WAYS)]
    assert any(each != {"value": wire} for each in made)
    for each in made:
        unpacked(json.loads(json.dumps(each["value"])), HERE)


def test_some_wrong_answer_is_wrong_in_every_part() -> None:
    """So a test of any part of an answer is distinguished from a test of its kind."""
    wire = {"object": ["Span", {"first": 1, "last": {"date": "2026-01-08"}, "both": [1, {"tuple": [2, 3]}]}]}
    made = [wrong_answer({"value": wire}, way)["value"]["object"][1] for way in range(WAYS)]
    assert any(each["last"] != {"date": "2026-01-08"} and each["first"] != 1 for each in made)
    assert any(
        len(each["both"]) == 2 and each["both"][0] != 1 and each["both"][1] != {"tuple": [2, 3]} for each in made
    )


CLASSES = """
import dataclasses, enum

class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next
        self.__hidden = [value]
    def __eq__(self, other):
        raise AssertionError("nobody asks")
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)

class Slotted:
    __slots__ = ("left", "right", "_parent")
    def __init__(self, left=None):
        self.left = left

@dataclasses.dataclass
class Pair:
    one: object
    other: object

class Rights(enum.Flag):
    READ = 1
    WRITE = 2
"""


def skill_with_classes() -> Any:
    made = types.ModuleType("nowhere")
    exec(CLASSES, vars(made))
    return made


OWN = skill_with_classes()
INSTANCES = some.recursive(
    ATOMS | some.sampled_from([OWN.Rights.READ, OWN.Rights.READ | OWN.Rights.WRITE]),
    lambda inner: (
        some.builds(OWN.Node, inner, inner)
        | some.builds(OWN.Slotted, inner)
        | some.builds(OWN.Pair, inner, inner)
        | some.lists(inner)
    ),
    max_leaves=12,
)


@given(INSTANCES)
def test_instances_of_a_skills_classes_keep_their_attributes(value: Any) -> None:
    wire = packed(value, "nowhere")
    again = unpacked(json.loads(json.dumps(wire)), OWN)
    assert type(again) is type(value)
    assert packed(again, "nowhere") == wire


def test_shared_instances_and_cycles_are_preserved() -> None:
    node = OWN.Node(1, OWN.Node(2))
    node.next.next = node
    one, again = unpacked(json.loads(json.dumps(packed([node, OWN.Pair(node, node.next)], "nowhere"))), OWN)
    assert one.next.next is one
    assert again.one is one
    assert again.other is one.next


def test_a_result_that_is_part_of_an_argument_remains_part_of_it() -> None:
    inner = OWN.Node(2)
    before = Packer("nowhere")
    before.pack([OWN.Node(1, inner)])
    wire = Packer("nowhere", before.objects, unchanged=True).pack([inner, OWN.Node(3)])
    theirs = OWN.Node(1, OWN.Node(2))
    there = Packer("nowhere")
    there.pack([theirs])
    found = Unpacker(OWN, there.objects).unpack(json.loads(json.dumps(wire)))
    assert found[0] is theirs.next
    assert found[1].value == 3


def test_values_that_are_too_deep_or_too_large_are_not_packed() -> None:
    deep = OWN.Node(0)
    for _ in range(100_000):
        deep = OWN.Node(0, deep)
    for value in (deep, [[0] * 1_000] * 1_000):
        with pytest.raises(NotPackable):
            packed(value, "nowhere")


def test_values_without_a_plain_form_are_not_packed() -> None:
    deep: list[Any] = []
    deep.append(deep)
    for value in (object(), iter([1]), lambda: 1, deep, {1: object()}):
        with pytest.raises(NotPackable):
            packed(value, "nowhere")


def test_the_eq_method_of_a_class_is_not_packed() -> None:
    class All(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    again = unpacked(packed(All("x"), "nowhere"), HERE)
    assert type(again) is str
    assert again != "y"


@pytest.mark.parametrize("held", [3, 2.5, "text", Decimal("2.5"), 1 + 2j, {1, 2}, frozenset((1, 2)), [1], (1,), {1: 2}])
def test_a_subclass_is_packed_by_its_contents_without_calling_its_methods(held: Any) -> None:
    def other(*_: Any) -> Any:
        return type(held)(9) if isinstance(held, int | float | complex | Decimal) else iter(())

    claims = dict.fromkeys(("__int__", "__index__", "__float__", "__complex__", "__abs__", "__iter__"), other)
    claims |= {"__str__": lambda _: "9", "__repr__": lambda _: "9", "__eq__": lambda *_: True, "__hash__": lambda _: 1}
    liar = type("Liar", (type(held),), {**claims, "__ne__": lambda *_: False, "__len__": lambda _: 9})
    liar.__module__ = "elsewhere"
    assert packed(liar(held), "nowhere") == packed(held, "nowhere")


def test_an_exception_is_restored_as_its_most_specific_known_type() -> None:
    class Own(KeyError):
        pass

    again = unpacked_exception(packed_exception(Own("k"), "nowhere"), HERE)
    assert type(again) is KeyError
    assert again.args == ("k",)


@pytest.mark.parametrize("value", [Decimal("0.10"), Fraction(1, 3), Path("a/b"), dt.time(1, 2), range(3), float("inf")])
def test_types_of_the_standard_library_are_packed(value: object) -> None:
    assert unpacked(packed(value, "nowhere"), HERE) == value


def test_only_declarations_that_compute_nothing_are_extracted_from_a_skill() -> None:
    source = (
        "import os\nimport enum\nfrom pydantic import BaseModel, Field\nLIMIT: int = 3\nNOW = os.getpid()\n\n"
        "class Kind(enum.Enum):\n    A = 'a'\n\nclass Bad(ValueError):\n    def __init__(self): os._exit(0)\n\n"
        "class Item(BaseModel):\n    name: str = Field('x', description='d')\n\n"
        "class Worse(BaseModel):\n    name: str = os.getenv('x')\n\nclass Able(BaseModel):\n    def go(self): os._exit(0)\n\n"
        "def work(): os._exit(0)\n"
    )
    taken = declarations(ParsedSource.parse(source).tree)
    for name in ("LIMIT = 3", "class Kind", "class Bad(ValueError)", "class Item", "class Able"):
        assert name in taken
    for name in ("os", "NOW", "Worse", "work"):
        assert name not in taken


def test_tests_that_patch_are_recognised_from_their_source() -> None:
    source = (
        "def helper(monkeypatch): monkeypatch.setattr('a.b', 1)\ndef test_a(monkeypatch): helper(monkeypatch)\n"
        "def test_b(monkeypatch, tmp_path): monkeypatch.chdir(tmp_path)\ndef test_c(caplog): pass\ndef test_d(): pass\n"
    )
    assert impure_tests(ParsedSource.parse(source)) == {"helper", "test_a", "test_c"}


def test_a_class_keeps_only_its_fields_and_simple_constructors() -> None:
    source = """
from __future__ import annotations
import functools
class Node:
    def __init__(self, value, next: Node | None = None):
        if value is None:
            raise ValueError("no value")
        self.value = value
        self.next = next
    def __eq__(self, other): return True
    def work(self): return steal()
class Opened:
    def __init__(self, path):
        self.text = open(path).read()
class Framed:
    def __init__(self, path):
        found = (x for x in path)
        self.text = found.gi_frame
class Aware:
    def __init__(self, path):
        self.text = path.__class__
class Shared:
    def __init__(self, path):
        path.seen = 1
class Hooked:
    def __setattr__(self, name, value): steal()
class Made(type):
    pass
class Strange(metaclass=Made):
    pass
"""
    taken = declarations(ParsedSource.parse(source).tree)
    assert "self.next = next" in taken
    assert "__eq__ = __same_fields__" in taken
    assert "work = __unavailable__('Node.work')" in taken
    for name in ("Opened", "Framed", "Aware", "Shared"):
        assert f"__init__ = __unavailable__('{name}.__init__')" in taken
    for name in ("steal", "open", "gi_frame", "__class__", "seen", "Hooked", "Made", "Strange"):
        assert name not in taken
