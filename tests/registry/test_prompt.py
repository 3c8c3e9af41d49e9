"""Only the variables of a prompt are replaced. (REG-6)"""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.prompt import PromptSpec, TemplateError, names_in, render

pytestmark = pytest.mark.spec("REG-6")

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
PLAIN = st.text(st.characters(exclude_characters="{}"), max_size=20)


class Secret:
    password = "hunter2"

    def __str__(self):
        return "a secret"

    def __getitem__(self, key):
        return "hunter2"

    def __format__(self, spec):
        raise AssertionError("a template decided how it is formatted")


@pytest.mark.parametrize(
    "template",
    [
        "{user.password}",
        "{user[0]}",
        "{user[password]}",
        "{user.__class__.__mro__}",
        "{user!r}",
        "{user:>10}",
        "{user:{width}}",
        "{0}",
        "{}",
        "{ user }",
        "{user",
        "user}",
        "{us{er}}",
        "{a-b}",
        "{user\n}",
        "{ünder}",
    ],
)
def test_a_template_with_more_than_variable_names_is_rejected(template):
    for values in ({}, {"user": Secret(), "width": 5}):
        with pytest.raises(TemplateError):
            render(template, values)
    with pytest.raises(TemplateError):
        PromptSpec("p", template)


def test_a_variable_without_a_value_stays_visible():
    prompt = PromptSpec("p", "Dear {name}, {{not a variable}} {missing}.", ("name", "missing"))
    assert prompt.render({"name": Secret()}) == "Dear a secret, {not a variable} {missing}."


def test_a_template_may_use_only_its_declared_variables():
    with pytest.raises(TemplateError, match="other"):
        PromptSpec("p", "{name} {other}", ("name",))


@given(st.lists(st.tuples(PLAIN, NAMES), max_size=5), st.dictionaries(NAMES, st.text(max_size=20)))
def test_values_are_never_treated_as_templates(parts, values):
    template = "".join(f"{text}{{{name}}}" for text, name in parts)
    expected = "".join(text + values.get(name, f"{{{name}}}") for text, name in parts)
    assert render(template, values) == expected
    assert names_in(template) == list(dict.fromkeys(name for _, name in parts))


@given(
    st.text("ab{}.[]!:0_ ", max_size=30),
    st.dictionaries(st.sampled_from(["a", "b", "ab"]), st.text("{}ab", max_size=5)),
)
def test_every_accepted_template_gives_the_same_text_as_str_format(template, values):
    try:
        rendered = render(template, values)
    except TemplateError:
        return
    fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    assert all(field.isidentifier() for field in fields)
    known = {name: values.get(name, f"{{{name}}}") for name in fields}
    assert rendered == template.format(**known)
