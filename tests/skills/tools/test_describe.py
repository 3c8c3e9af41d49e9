"""Skills formatted as text."""

from dataclasses import replace

import pytest

from acquired_skills.tools.describe import signature
from tests.skills.parts import skill


@pytest.mark.spec("SKILL-3")
def test_a_signature_names_every_type_that_a_parameter_takes() -> None:
    properties = {
        "size": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        "place": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": None},
        "key": {"default": None},
    }
    shown = replace(skill(), parameters={"type": "object", "properties": properties, "required": ["size"]})
    assert signature(shown) == "add_one(size: number | string, place: object | null = None, key: any = None)"
