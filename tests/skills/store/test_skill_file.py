from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from acquired_skills.model.skill import NotAdmitted, SkillDamaged, SkillState
from acquired_skills.store.skill_file import parse, render
from tests.skills.parts import skill

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200).filter(str.strip)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.spec("SKILL-10")
@given(
    description=TEXT.map(str.strip),
    examples=st.lists(TEXT, max_size=3).map(tuple),
    parameters=st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    state=st.sampled_from(SkillState),
    version=st.integers(1, 10**6),
    plain=st.booleans(),
    dependencies=st.lists(TEXT, max_size=3).map(tuple),
    destinations=st.lists(st.sampled_from(["a.example:443", "[::1]:80"]), max_size=2).map(tuple),
)
def test_a_written_skill_is_read_back(  # noqa: PLR0917  (hypothesis gives them by name)
    description: str,
    examples: tuple[str, ...],
    parameters: dict[str, object],
    state: SkillState,
    version: int,
    plain: bool,
    dependencies: tuple[str, ...],
    destinations: tuple[str, ...],
) -> None:
    written = replace(
        skill(), description=description, examples=examples,
        parameters={"type": "object", "properties": {}, "required": [], "x": parameters},
        state=state, version=version, plain=plain, dependencies=dependencies, destinations=destinations,
        environment=dependencies,
    )  # fmt: skip
    assert parse(render(written), "SKILL.md") == written


def test_the_file_is_valid_under_the_agent_skills_format() -> None:
    front = YAML(typ="safe").load(render(skill("roman_numeral")).decode().split("---\n")[1])
    assert front["name"] == "roman-numeral"
    assert 1 <= len(front["description"]) <= 1024
    assert set(front) == {"name", "description", "metadata"}
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in front["metadata"].items())


GOOD = render(skill()).decode()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no YAML front matter"),
        ("# just text", "no YAML front matter"),
        ("---\nname: [\n---\n", "not valid YAML"),
        ("---\n- a\n---\n", ":2:1: the front matter is invalid: the document must be a mapping, not a list"),
        ("---\n---\n", "no YAML front matter"),
        ("---\n# nothing\n---\n", ":2:1: the front matter is invalid: the field `name` is missing"),
        ("---\ndescription: x\nname: Bad Name\n---\n", ":3:7: the front matter is invalid: name"),
        ("---\nname: add-one\n---\n", "the field `description` is missing"),
        (
            "---\nname: add-one\ndescription: 3\n---\n",
            ":3:14: the front matter is invalid: description must be a string",
        ),
        ("---\nname: add-one\ndescription: 2026-13-45\n---\n", "cannot be used here: month must be in 1..12"),
        (GOOD.replace("knackbox-version: '1'", "knackbox-version: zero"), "knackbox-version"),
        (GOOD.replace("knackbox-version: '1'", f"knackbox-version: '{10**30}'"), "knackbox-version"),
        (GOOD.replace("knackbox-timeout: '30.0'", "knackbox-timeout: 'Infinity'"), "knackbox-timeout"),
        (GOOD.replace("knackbox-state: probation", "knackbox-state: loved"), "knackbox-state"),
        (GOOD.replace("knackbox-parameters: '{", "knackbox-parameters: '"), "knackbox-parameters"),
        (GOOD.replace("knackbox-destinations: '[]'", "knackbox-destinations: '[\"x\"]'"), "knackbox-destinations"),
        (GOOD.replace("  knackbox-code-sha256: ", "  knackbox-code-sha256: x"), "knackbox-code-sha256"),
    ],
)
def test_an_invalid_file_is_refused_with_the_line_and_the_fault(text: str, says: str) -> None:
    with pytest.raises(SkillDamaged) as refused:
        parse(text.encode(), "/home/x/SKILL.md")
    assert str(refused.value).startswith("/home/x/SKILL.md")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_of_a_release_without_declarations_declares_nothing() -> None:
    keys = ("knackbox-dependencies", "knackbox-destinations", "knackbox-environment")
    older = "".join(line for line in GOOD.splitlines(keepends=True) if not line.strip().startswith(keys))
    assert older != GOOD
    assert parse(older.encode(), "SKILL.md") == skill()


def test_the_text_for_people_lists_what_a_skill_needs() -> None:
    text = render(replace(skill(), dependencies=("six>=1",), destinations=("a.example:443",))).decode()
    assert "## Needs\n\n- the package `six>=1`\n- a connection to `a.example:443`\n" in text
    assert "## Needs" not in GOOD


@pytest.mark.spec("SKILL-3")
def test_a_file_with_a_schema_that_would_take_forever_to_validate_is_damaged() -> None:
    defs = {f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level - 1}"}] * 8} for level in range(1, 13)}
    bomb = {"type": "object", "$defs": defs | {"a0": {}}, "allOf": [{"$ref": "#/$defs/a12"}]}
    with pytest.raises(SkillDamaged, match=r"SKILL.md: metadata knackbox-parameters: "):
        parse(render(replace(skill(), parameters=bomb)), "SKILL.md")


@pytest.mark.spec("SKILL-18")
def test_an_output_schema_is_stored_and_an_unusable_one_makes_the_file_damaged() -> None:
    written = replace(skill(), returns={"type": "array", "items": {"type": ["integer", "null"]}})
    assert parse(render(written), "SKILL.md") == written
    for unusable in ({"$ref": "https://example.com"}, {"items": {"$ref": "#"}}, {"pattern": "(?=a)"}, {"type": "huh"}):
        with pytest.raises(SkillDamaged, match=r"SKILL.md: metadata knackbox-returns: "):
            parse(render(replace(skill(), returns=unusable)), "SKILL.md")


@pytest.mark.parametrize("found", ["[" * 5_000, "{x: " * 5_000])
def test_a_file_nested_too_deep_to_read_is_refused_like_any_other(found: str) -> None:
    for text in (f"---\n{found}\n---\n", GOOD.replace("knackbox-imports: '", f"knackbox-imports: '{found}", 1)):
        with pytest.raises(SkillDamaged, match=r"SKILL.md"):
            parse(text.encode(), "SKILL.md")


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(SkillDamaged, match="not UTF-8"):
        parse(b"---\nname: \xff\n---\n", "SKILL.md")


def test_a_foreign_skill_is_distinguished_from_a_damaged_one() -> None:
    with pytest.raises(NotAdmitted, match="not admitted here"):
        parse(b"---\nname: pdf-forms\ndescription: Fill forms.\nlicense: MIT\n---\nbody", "SKILL.md")
