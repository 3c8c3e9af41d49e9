"""A claim is supported only if the numbers, dates, names and negations of it are in the quoted passage."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.web.research.verification.normalization import TextRange
from builtin_tools.web.research.verification.quantities import quantities_of, states
from builtin_tools.web.research.verification.quotes import QuotedPassage
from builtin_tools.web.research.verification.support import SupportCheck, UnsupportedKind

pytestmark = pytest.mark.spec("WEB-4")

CHECK = SupportCheck()


def kinds(claim: str, passage: str, title: str = "", lead: str = "") -> set[str]:
    quoted = QuotedPassage(passage, TextRange(0, len(passage)), passage, lead, title)
    return {part.kind.value for part in CHECK.unsupported(claim, quoted)}


SAME = [
    ("The town has 1,234,567 inhabitants.", "The town has 1.234.567 inhabitants."),
    ("The town has about 1.2 million inhabitants.", "The town has 1,234,567 inhabitants."),
    ("The road is 1.5 km long.", "The road is 1,500 metres long."),
    ("Half of the members voted.", "50 percent of the members voted."),
    ("Three quarters of the trees died.", "75% of the trees died."),
    ("The film lasts 90 minutes.", "The film lasts one and a half hours."),
    ("Twenty-one boats sank.", "21 boats sank."),
    ("It cost $3.5 billion.", "It cost 3,500 million dollars."),
    ("The file has 2 MiB.", "The file has 2,048 KiB."),
    ("More than 500 people came.", "523 people came."),
    ("He was born on 3 May 1985.", "He was born on May 3rd, 1985."),
    ("He was born in May 1985.", "He was born on 1985-05-03."),
    ("The train leaves at 5 pm.", "The train leaves at 17:00."),
    ("It was built in the 1990s.", "It was built in 1994."),
    ("It was built in the 19th century.", "It was built in 1854."),
    ("The EU adopted the rule.", "The European Union adopted the rule."),
    ("Müller's plan was adopted.", "The plan of Muller was adopted."),
    ("Italy banned the product.", "The Italian government banned the product."),
    ("The option --force is not available.", "There is no option --force."),
    ("Smoking is prohibited.", "Smoking is not allowed."),
    ("The bridge did not collapse.", "The bridge never collapsed."),
    ("The ship sank.", "The ship has sunk."),
]
DIFFERENT = [
    ("The town has 1,234,567 inhabitants.", "The town has 1,243,567 inhabitants.", "number"),
    ("The road is 15 km long.", "The road is 1,500 metres long.", "number"),
    ("40 percent of the members voted.", "40 members voted.", "number"),
    ("It cost 3.5 million dollars.", "It cost 3.5 billion dollars.", "number"),
    ("It cost 30 euros.", "It cost 30 dollars.", "number"),
    ("12 students passed.", "40 students and 12 teachers passed.", "number"),
    ("More than 500 people came.", "423 people came.", "number"),
    ("It came third.", "It came second.", "number"),
    ("He was born on 3 May 1985.", "He was born on 13 May 1985.", "date"),
    ("He was born on 3 May 1985.", "He was born in May 1985.", "date"),
    ("He was born in 1985.", "He was born in 1958.", "date"),
    ("The train leaves at 5 am.", "The train leaves at 17:00.", "date"),
    ("The Danish parliament voted.", "The Swedish parliament voted.", "name"),
    ("Berlin has the largest museum.", "Bremen has the largest museum.", "name"),
    ("Use version 3.11.4.", "Use version 3.11.2.", "name"),
    ("The option --force is new.", "The option --quiet is new.", "name"),
    ("Smoking is allowed.", "Smoking is not allowed.", "negation"),
    ("Smoking is not allowed.", "Smoking is allowed.", "negation"),
    ("The bridge collapsed.", "The bridge never collapsed.", "negation"),
    ("The ship sank.", "The ship did not sink.", "negation"),
    ("The service is enabled by default.", "The service is disabled by default.", "negation"),
    ("Prices rose.", "Prices fell.", "negation"),
    ("The library is thread-safe without a lock.", "The weather was nice on the whole coast.", "negation"),
    ("Sheep graze there.", "The weather was nice on the whole coast.", "topic"),
]


@pytest.mark.parametrize(("claim", "passage"), SAME)
def test_the_same_in_other_words_and_units_is_supported(claim: str, passage: str) -> None:
    assert kinds(claim, passage) == set()


@pytest.mark.parametrize(("claim", "passage", "kind"), DIFFERENT)
def test_a_changed_part_is_named(claim: str, passage: str, kind: str) -> None:
    assert kind in kinds(claim, passage)


def test_a_name_may_be_in_the_title_or_in_the_sentence_before_that_the_passage_continues() -> None:
    claim, passage = "Marlin was released in 2024.", "It was released in 2024."
    assert kinds(claim, passage) == {"name"}
    assert kinds(claim, passage, title="What is new in Marlin") == set()
    assert kinds(claim, passage, lead="Marlin is a language.") == set()
    assert kinds(claim, "Herring was released in 2024.", lead="Marlin is a language.") == {"name"}


@given(st.integers(10, 10**9), st.integers(10, 10**9))
def test_one_number_states_another_only_if_they_are_equal(one: int, other: int) -> None:
    claim, passage = f"It has exactly {one:,} rows.", f"It has exactly {other} rows."
    stated = states(quantities_of(passage), quantities_of(claim)[0])
    digits = str(one).rstrip("0")
    rounded = (
        one >= 1000
        and len(digits) < len(str(one))
        and len(str(one)) > 1
        and round(Fraction(other, 10 ** (len(str(one)) - len(digits)))) * 10 ** (len(str(one)) - len(digits)) == one
    )
    assert stated == (one == other or rounded)


WORDS = st.lists(
    st.sampled_from(
        ("not", "no", "unless", ",", ".", "the", "12", "million", "%", "half", "May", "2024", "Oslo", "--")
    ),
    max_size=12,
).map(" ".join)


@given(st.text(max_size=200) | WORDS, st.text(max_size=200) | WORDS)
def test_no_text_makes_the_check_fail(claim: str, passage: str) -> None:
    for part in CHECK.unsupported(claim, QuotedPassage(passage, TextRange(0, len(passage)), passage)):
        assert part.kind in UnsupportedKind
        assert str(part)
