"""A tool's arguments have names, so positional-only parameters get theirs, and `*args` need another signature."""

from dataclasses import replace

import pytest

from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.named_parameters import without_marker
from acquired_skills.proof.static_checks import check
from tests.skills.parts import proposal

pytestmark = pytest.mark.spec("SKILL-2")
SIGNATURES = {
    "(a, /)": "(a )",
    "(a, /, b)": "(a , b)",
    "(ä: int = 4 / 2, /, b=3 / 1, *, c=1)": "(ä: int = 4 / 2 , b=3 / 1, *, c=1)",
    "(\n    a,\n    b,  # é, x\n    /,  # the rest may be named\n    c,\n)": (
        "(\n    a,\n    b  # é, x\n    ,  # the rest may be named\n    c,\n)"
    ),
    "(a, b=1 / 2)": "(a, b=1 / 2)",
}


@pytest.mark.parametrize(("given", "found"), SIGNATURES.items())
def test_the_marker_of_positional_only_parameters_is_removed(given: str, found: str) -> None:
    source = "HALF = 1 / 2\n\n\ndef half{}:\n    return a / 2\n"
    assert without_marker(source.format(given), "half") == source.format(found)
    assert without_marker(source.format(given) + "\n\nother = half\n", "other").startswith(source.format(found))


def test_the_author_hears_of_it() -> None:
    offered = proposal()
    parsed = check(replace(offered, code=offered.code.replace("int)", "int, /)")), frozenset())
    assert "/" not in parsed.proposal.code
    assert parsed.notes == (
        "The `/` was removed from the parameters of `add_one`, because a tool's arguments have names.",
    )


@pytest.mark.parametrize(
    ("given", "stars", "said"),
    [
        ("*dicts, **kwargs", "`*dicts` and `**kwargs`", "(dicts: list, *, kwargs: dict)"),
        ("func, *seqs: str", "`*seqs`", "(func, seqs: list[str])"),
        (
            "a, b=1, *rest, c=2, **more: int",
            "`*rest` and `**more`",
            "(a, b=1, rest: list=(), *, c=2, more: dict[str, int])",
        ),
    ],
)
def test_variable_arguments_are_refused_with_the_signature_to_write(given: str, stars: str, said: str) -> None:
    code = proposal().code.replace("number: int", given)
    with pytest.raises(SkillRefused) as refused:
        check(replace(proposal(), code=code), frozenset())
    assert f"{stars} of `add_one` cannot be passed" in str(refused.value)
    assert f"Write `def add_one{said}`" in str(refused.value)
