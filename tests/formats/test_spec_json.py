"""A spec can be converted to JSON with all fields, or with the requested ones."""

import json
from dataclasses import fields

import pytest

from engine.contract.spec import Annotations, Tag, ToolSpec
from engine.formats.spec_json import spec_to_json

pytestmark = pytest.mark.spec("DISC-1", "FACE-3")

SPEC = ToolSpec(
    "pay", "Pay.", side_effects=("money",), annotations=Annotations(destructive=True), tag=Tag("PAY"), meta={"a": [1]}
)


def test_every_field_of_a_spec_can_be_written_as_json() -> None:
    shown = spec_to_json(SPEC)
    assert shown.keys() == {each.name for each in fields(ToolSpec)}
    assert json.loads(json.dumps(shown)) == shown | {"tag": shown["tag"] | {"arg_groups": ["raw_arg"]}}


def test_requested_fields_are_returned_in_the_requested_order() -> None:
    assert list(spec_to_json(SPEC, "name", "annotations", "side_effects").items()) == [
        ("name", "pay"),
        (
            "annotations",
            {"read_only": False, "destructive": True, "idempotent": False, "requires_confirmation": False},
        ),
        ("side_effects", ["money"]),
    ]
