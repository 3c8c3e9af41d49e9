"""What a tool's spec says of itself when its author left it open. (REG-2)"""

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
def test_annotations_follow_from_the_category_when_nobody_gave_them(category, expected):
    assert ToolSpec("t", "A tool.", category=category).annotations == expected

    @tool(category=category)
    async def decorated() -> None:
        """Do it."""

    assert decorated.spec.annotations == expected


@given(
    category=st.sampled_from(["search", "write", "delete", "code_changes", "terminal", "general"]),
    given_=st.builds(Annotations, st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_annotations_that_were_given_always_win(category, given_):
    assert ToolSpec("t", "A tool.", category=category, annotations=given_).annotations is given_


def test_a_name_says_nothing_about_what_a_call_may_do():
    assert ToolSpec("search_everything", "A tool.").annotations == Annotations()


def test_the_id_is_the_name_unless_given_and_outlives_a_new_name():
    spec = ToolSpec("convert", "Convert.")
    assert spec.id == "convert"
    assert replace(spec, name="units.convert").id == "convert"
    assert ToolSpec("convert", "Convert.", id="acme.convert").id == "acme.convert"


def test_the_spec_has_every_field_that_is_promised():
    promised = (
        "name version description short_description parameters tier category cost safety_class required_permission "
        "caps_required side_effects annotations aliases defer_loading timeout_s idempotency_key_fields cooldown_seconds "
        "daily_limit requires_gate tag adapter_path meta id"
    )
    assert set(promised.split()) <= {each.name for each in fields(ToolSpec)}
    assert ToolSpec("t", "First. Second.").summary == "First"
    assert ToolSpec("t", "First. Second.", short_description="Given").summary == "Given"
