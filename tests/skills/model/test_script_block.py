"""The script block of a skill's code, which declares packages and destinations."""

import contextlib
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.model.script_block import BlockError, ScriptBlock, read_script_block
from acquired_skills.proof.static_checks import MAX_CODE_BYTES
from sandbox.contract import Destination


def block(*lines: str) -> str:
    return "\n".join(["# /// script", *(f"# {line}" for line in lines), "# ///"]) + "\n"


@pytest.mark.spec("BOX-10", "BOX-11")
def test_the_block_of_a_source_declares_packages_and_destinations() -> None:
    source = '"""Doc."""\n' + block(
        'requires-python = ">=3.8"',
        "dependencies = [",
        '  "six>=1",',
        '  "attrs",',
        "]",
        "[tool.knackbox]",
        'destinations = ["API.example.com.:443", "[::1]:8080", "api.example.com:443"]',
        "[tool.uv]",
        'index-url = "http://not.heeded"',
    )
    wanted = ScriptBlock(("six>=1", "attrs"), (Destination("api.example.com", 443), Destination("::1", 8080)))
    assert read_script_block(source) == wanted
    assert read_script_block(source.replace("\n", "\r\n")) == wanted


@pytest.mark.parametrize(
    "source",
    ["import six\n", "# /// script\n# ///\n", "# /// script\n# dependencies = ['six']\nx = 1\n", block("[tool.other]")],
)
def test_without_a_complete_block_nothing_is_declared(source: str) -> None:
    assert read_script_block(source) == ScriptBlock()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["dependencies = ["], "not TOML"),
        (["dependencies = 'six'"], "list of strings"),
        (["dependencies = [1]"], "list of strings"),
        (["dependencies = ['six ==']"], "not a valid requirement"),
        (["requires-python = '>=99'"], "requires Python >=99"),
        (["requires-python = 'new'"], "not a version specifier"),
        (["tool = 1"], "not a table"),
        (["[tool]", "knackbox = 'x'"], "not a table"),
        (["[tool.knackbox]", "destination = ['a:1']"], "unknown key `destination`"),
        (["[tool.knackbox]", "destinations = 'a:1'"], "list of strings"),
        (["[tool.knackbox]", "destinations = ['example.com']"], "not host:port"),
        (["[tool.knackbox]", "destinations = ['example.com:0']"], "not host:port"),
        (["[tool.knackbox]", "destinations = ['*.example.com:443']"], "wildcard"),
        (["[tool.knackbox]", "destinations = ['127.1:443']"], "write the address as"),
        (["[tool.knackbox]", f"destinations = {[f'a{i}:1' for i in range(33)]}"], "33 destinations; the maximum is 32"),
        (["a." * 30_000 + "a = 1"], "use at most 4,096"),
        (["dependencies = []", "///\n\n# /// script", "dependencies = []"], "more than one"),
    ],
)
def test_an_invalid_block_is_refused_with_the_reason(lines: list[str], says: str) -> None:
    with pytest.raises(BlockError, match=re.escape(says)):
        read_script_block(block(*lines))


REFERENCE = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")  # from PEP 723
LINES = st.sampled_from(
    ["# /// script", "# ///", "#", "# dependencies = ['a']", "# x = 1", "#x", "x", "", "# /// other", " # /// script"]
)


@given(lines=st.lists(LINES, max_size=12))
def test_blocks_are_found_where_the_reference_expression_finds_them(lines: list[str]) -> None:
    source = "\n".join(lines) + "\n"
    found = [match for match in REFERENCE.finditer(source) if match["type"] == "script"]
    if len(found) > 1:
        with pytest.raises(BlockError, match="more than one"):
            read_script_block(source)
        return
    content = "".join(line[2:] + "\n" for line in found[0]["content"].splitlines()) if found else ""
    try:
        expected = tuple(tomllib.loads(content).get("dependencies", []))
    except tomllib.TOMLDecodeError:
        with pytest.raises(BlockError, match="not TOML"):
            read_script_block(source)
        return
    assert read_script_block(source).dependencies == expected


@given(text=st.text(max_size=200))
def test_any_text_in_a_block_is_either_parsed_or_refused(text: str) -> None:
    try:
        read_script_block(block(*text.split("\n")))
    except BlockError:
        return


def test_a_source_full_of_opening_markers_is_read_in_linear_time() -> None:
    """The reference expression takes seconds for each of these sources, more than the timeout of the test."""
    for lines in ("# /// script\n", "# /// script\n#\n", "# ///\n# /// script\n"):
        source = lines * (MAX_CODE_BYTES // len(lines))
        for _ in range(100):
            with contextlib.suppress(BlockError):
                read_script_block(source)
