"""A spec as JSON: every field of it, or those that are asked for."""

import json
from dataclasses import fields

import pytest

from engine.contract.spec import Annotations, Tag, ToolSpec
from engine.formats.spec_json import spec_to_json

pytestmark = pytest.mark.spec("DISC-1", "FACE-3")

SPEC = ToolSpec(
    "pay", "Pay.", side_effects=("money",), annotations=Annotations(destructive=True), tag=Tag("PAY"), meta={"a": [1]}
)


def test_every_field_is_there_and_json_carries_all_of_them() -> None:
    shown = spec_to_json(SPEC)
    assert shown.keys() == {each.name for each in fields(ToolSpec)}
    assert json.loads(json.dumps(shown)) == shown | {"tag": shown["tag"] | {"arg_groups": ["raw_arg"]}}


def test_those_that_are_asked_for_come_in_that_order() -> None:
    assert list(spec_to_json(SPEC, "name", "annotations", "side_effects").items()) == [
        ("name", "pay"),
        (
            "annotations",
            {"read_only": False, "destructive": True, "idempotent": False, "requires_confirmation": False},
        ),
        ("side_effects", ["money"]),
    ]
