"""Tagged lines: found in order, never by accident, and without patterns that could hang the parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.contract.spec import Tag, ToolSpec
from engine.formats.tags import TagError, TagRegistry, parse_response

SEARCH = ToolSpec("search", "Search the web. Slowly.", tag=Tag("SEARCH", prompt_example="SEARCH: weather in Rome"))
NUMBERS = {"type": "object", "properties": {"n": {"type": "integer"}, "loud": {"type": "boolean"}}}
REMIND = ToolSpec(
    "remind",
    "Remind somebody",
    NUMBERS,
    tag=Tag("REMIND", r"(\d+) min(?:utes)? (true|false) (.+)", ("n", "loud", "text"), strip_from_display=False),
)
TAGS = TagRegistry([SEARCH, REMIND, ToolSpec("plain", "Has no tag.")])


@pytest.mark.spec("TAG-2")
def test_tagged_lines_become_calls_in_order_and_all_other_lines_are_shown() -> None:
    found = parse_response("I will look.\nSEARCH:  cats\r\nREMIND: 5 minutes true feed the cat\nDone.", TAGS)
    assert [(call.tool, dict(call.arguments), call.line) for call in found.calls] == [
        ("search", {"raw_arg": "cats"}, 2),
        ("remind", {"n": 5, "loud": True, "text": "feed the cat"}, 3),
    ]
    assert found.calls[1].raw_arg == "5 minutes true feed the cat"
    assert found.display == "I will look.\nREMIND: 5 minutes true feed the cat\nDone."


@pytest.mark.spec("TAG-2")
@pytest.mark.parametrize(
    "text",
    [
        "search: cats",
        " SEARCH: cats",
        "SEARCH:cats",
        "SEARCH:",
        "SEARCH: ",
        "see SEARCH: cats",
        "SEARCHED: x",
        "REMIND: soon",
    ],
)
def test_lines_that_only_look_like_calls_are_plain_text(text: str) -> None:
    assert parse_response(text, TAGS) == parse_response(text, TagRegistry([]))


@pytest.mark.spec("TAG-1")
def test_the_prompt_block_gives_the_form_purpose_and_example_of_each_tag() -> None:
    block = TAGS.prompt_block()
    assert "- Remind somebody: REMIND: <n> <loud> <text>" in block
    assert "- Search the web: for example SEARCH: weather in Rome" in block
    assert "plain" not in block
    assert TagRegistry([]).prompt_block() == ""


@pytest.mark.spec("TAG-2")
@pytest.mark.parametrize(
    ("tag", "why"),
    [
        (Tag("X", "("), "not valid RE2"),
        (Tag("X", r"(.)\1"), "not valid RE2"),
        (Tag("X", r"(?=a)(.)"), "not valid RE2"),
        (Tag("X", "((a{1,900}){1,900})(.)", ("a", "b", "c")), "not valid RE2"),
        (Tag("X", "(.)(.)"), "2 groups"),
        (Tag("X", "(.)(.)", ("a", "a")), "its own name"),
        (Tag("", "(.)"), "prefix"),
        (Tag("X: Y", "(.)"), "prefix"),
        (Tag("SEARCH", "(.)"), "already used by search"),
    ],
)
def test_an_unusable_tag_is_rejected_when_it_is_registered(tag: Tag, why: str) -> None:
    with pytest.raises(TagError, match=why):
        TagRegistry([SEARCH, ToolSpec("other", "Does.", tag=tag)])


@pytest.mark.spec("TAG-2")
def test_a_pattern_prone_to_backtracking_is_matched_in_linear_time() -> None:
    slow = TagRegistry([ToolSpec("t", "Does.", tag=Tag("X", "((?:a+)+b)"))])
    assert parse_response("X: " + "a" * 60_000, slow).calls == ()


@pytest.mark.spec("TAG-2")
@given(lines=some.lists(some.sampled_from(["SEARCH: a b", "REMIND: 1 min false x", "SEARCH:", "text", "", "  "])))
def test_every_line_is_either_a_call_or_shown(lines: list[str]) -> None:
    found = parse_response("\n".join(lines), TAGS)
    assert [call.line for call in found.calls] == [
        n for n, line in enumerate(lines, 1) if line[:7] in {"SEARCH:", "REMIND:"} and len(line) > 8
    ]
    assert "SEARCH: a b" not in found.display


@pytest.mark.spec("TAG-2")
@given(text=some.text(max_size=300))
def test_text_without_a_call_is_not_changed(text: str) -> None:
    found = parse_response(text, TAGS)
    assert found.calls or found.display == text
