"""Which requirements are accepted, their spellings, and which are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.contract import UnresolvedRequirements
from sandbox.environments.requirements import MAX_REQUIREMENTS, installer_series, key_of, normalize, this_interpreter

NAMES = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), min_size=1, max_size=3)
EXTRAS = st.lists(st.from_regex(r"[a-z]{1,4}", fullmatch=True), max_size=3, unique=True)
VERSIONS = st.lists(st.sampled_from([">=1.0", "<3", "!=2.1", "~=1.4", "==1.*", ">0.1"]), max_size=3, unique=True)
MARKERS = st.sampled_from(["", 'python_version >= "3.8"', 'sys_platform == "linux"'])
SPACES = st.sampled_from(["", " ", "  "])


@st.composite
def spelled_twice(draw: st.DrawFn) -> tuple[str, str]:
    """Draw two spellings of one requirement."""
    words, extras, versions, marker = draw(NAMES), draw(EXTRAS), draw(VERSIONS), draw(MARKERS)

    def spelling() -> str:
        name = draw(st.sampled_from("-_.")).join(draw(st.sampled_from([w, w.upper(), w.title()])) for w in words)
        inside = ",".join(draw(st.permutations(extras)))
        text = f"{draw(SPACES)}{name}{draw(SPACES)}{f'[{inside}]' if extras else ''}{draw(SPACES)}"
        text += f"{draw(SPACES)},{draw(SPACES)}".join(draw(st.permutations(versions)))
        quoted = marker.replace('"', draw(st.sampled_from("'\"")))
        return text + (f" ;{draw(SPACES)}{quoted}" if marker else "")

    return spelling(), spelling()


@pytest.mark.spec("BOX-11")
@given(pairs=st.lists(spelled_twice(), min_size=1, max_size=6), data=st.data())
def test_the_key_depends_on_the_requirements_and_not_on_their_spelling(
    pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    assert normalize(first) == normalize(data.draw(st.permutations([*second, *first])))
    assert normalize(normalize(first)) == normalize(first)


def test_the_key_depends_on_the_interpreter_and_on_the_installer_too() -> None:
    wanted = normalize(["six"])
    here = key_of(wanted, this_interpreter(), installer_series())
    assert re.fullmatch("[0-9a-f]{32}", here)
    keys = {here, key_of(wanted, "cpython-399-x", installer_series()), key_of(wanted, this_interpreter(), "uv-99")}
    assert len(keys) == 3


@given(
    one=st.lists(st.sampled_from(["a", "b", "a>1", "a>1,<2", "b[c]"])), two=st.lists(st.sampled_from(["a", "b", "a>1"]))
)
def test_different_sets_have_different_keys(one: list[str], two: list[str]) -> None:
    a, b = normalize(one), normalize(two)
    assert (a == b) == (key_of(a, "i", "u") == key_of(b, "i", "u"))


@pytest.mark.spec("BOX-11")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("-e .", "option"),
        ("  --index-url=http://example.org six", "option"),
        ("-r requirements.txt", "option"),
        ("six @ https://example.org/six.whl", "address"),
        ("six @ file:///tmp/six", "address"),
        ("git+https://example.org/six.git", "not a requirement"),
        ("https://example.org/six.whl", "not a requirement"),
        ("./six", "not a requirement"),
        ("/tmp/six.whl", "not a requirement"),
        ("../six", "not a requirement"),
        ("six\n--index-url http://example.org", "not a requirement"),
        ("six --hash=sha256:00", "not a requirement"),
        ("six==", "not a requirement"),
        ("", "not a requirement"),
        ("\0", "not a requirement"),
        ("six; " + "(" * 400 + "a", "not a requirement"),
        ("six>=1," * 200 + "six", "longer"),
    ],
)
def test_anything_but_a_plain_requirement_is_refused_with_a_reason(text: str, says: str) -> None:
    with pytest.raises(UnresolvedRequirements, match=says):
        normalize([text])


@given(text=st.text(max_size=60))
def test_any_text_is_either_a_plain_requirement_or_refused(text: str) -> None:
    try:
        (found,) = normalize([text])
    except UnresolvedRequirements:
        return
    assert "://" not in found.partition(";")[0]
    assert re.match(r"[a-z0-9]", found)


def test_more_requirements_than_the_limit_are_refused() -> None:
    assert len(normalize([f"a{i}" for i in range(MAX_REQUIREMENTS)])) == MAX_REQUIREMENTS
    with pytest.raises(UnresolvedRequirements, match="maximum is 64"):
        normalize([f"a{i}" for i in range(MAX_REQUIREMENTS + 1)])
