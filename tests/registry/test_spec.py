"""Defaults of a tool's spec for fields that its author did not set. (REG-2)"""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.spec import Annotations, ToolSpec
from engine.registry.decorate import tool

pytestmark = pytest.mark.spec("REG-2")


@pytest.mark.parametrize(
    ("category", "expected"),
    [
        ("search", Annotations(read_only=True)),
        ("web_search", Annotations(read_only=True)),
        ("write", Annotations(destructive=True)),
        ("file-delete", Annotations(destructive=True)),
        ("code_changes", Annotations(destructive=True)),
        ("code", Annotations()),
        ("changes", Annotations()),
        ("terminal", Annotations(destructive=True, requires_confirmation=True)),
        ("search and delete", Annotations(destructive=True)),
        ("research", Annotations()),
        ("general", Annotations()),
    ],
)
def test_annotations_are_derived_from_the_category_by_default(category, expected):
    assert ToolSpec("t", "A tool.", category=category).annotations == expected

    @tool(category=category)
    async def decorated() -> None:
        """Do it."""

    assert decorated.spec.annotations == expected


@given(
    category=st.sampled_from(["search", "write", "delete", "code_changes", "terminal", "general"]),
    given_=st.builds(Annotations, st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_given_annotations_take_precedence(category, given_):
    assert ToolSpec("t", "A tool.", category=category, annotations=given_).annotations is given_


def test_annotations_do_not_depend_on_the_name():
    assert ToolSpec("search_everything", "A tool.").annotations == Annotations()


def test_the_id_defaults_to_the_name_and_is_kept_when_the_tool_is_renamed():
    spec = ToolSpec("convert", "Convert.")
    assert spec.id == "convert"
    assert replace(spec, name="units.convert").id == "convert"
    assert ToolSpec("convert", "Convert.", id="acme.convert").id == "acme.convert"


def test_the_spec_has_every_specified_field():
    promised = (
        "name version description short_description parameters tier category cost safety_class required_permission "
        "caps_required side_effects annotations aliases defer_loading timeout_s idempotency_key_fields cooldown_seconds "
        "daily_limit requires_gate tag adapter_path meta id"
    )
    assert set(promised.split()) <= {each.name for each in fields(ToolSpec)}
    assert ToolSpec("t", "First. Second.").summary == "First"
    assert ToolSpec("t", "First. Second.", short_description="Given").summary == "Given"
