"""A quotation is found only if it is on the page, and then with its exact offsets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin_tools.web.research.verification.normalization import NormalizedText, normalized
from builtin_tools.web.research.verification.quotes import QuotableText
from builtin_tools.web.research.verification.sentences import sentence_ranges, sentences_of

pytestmark = pytest.mark.spec("WEB-4")

PAGE = "The  lamp\u2014said \u201cKeeper Vik\u201d\u2014burned\nrapeseed\u00a0oil. It cost 5\u00a0% more. She is unable to swim."


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ('The lamp-said "Keeper Vik"-burned rapeseed oil.', PAGE[: PAGE.index(" It cost")]),
        ("burned rapeseed oil. It cost 5 % more", "burned\nrapeseed\u00a0oil. It cost 5\u00a0% more"),
        ("“It cost 5 % more.”", "It cost 5\u00a0% more."),
        ("it cost 5 % more.", "It cost 5\u00a0% more."),
    ],
)
def test_a_quotation_with_other_spaces_and_quote_marks_is_found_with_the_characters_of_the_page(
    quote: str, found: str
) -> None:
    places = QuotableText(PAGE).find(quote)
    assert [each.quote for each in places] == [found]
    assert [PAGE[each.place.start : each.place.end] for each in places] == [found]


@pytest.mark.parametrize(
    "quote",
    [
        "able to swim.",  # begins inside of "unable"
        "The lamp burned rapeseed oil.",  # a part was left out
        "The lamp ... rapeseed oil.",
        "It cost 6 % more.",
        "It COST 5 % more.",
        "oil. It",  # too short
        "",
        "x" * 5_000,
    ],
)
def test_what_is_not_on_the_page_word_for_word_is_not_found(quote: str) -> None:
    assert QuotableText(PAGE).find(quote) == []


def test_the_passage_of_a_quotation_is_its_whole_sentence_so_a_negation_cannot_be_cut_off() -> None:
    text = "Cyclists may cross. It is not true that cars are allowed to stop here. Trains may."
    (found,) = QuotableText(text).find("cars are allowed to stop here")
    assert found.text == "It is not true that cars are allowed to stop here."
    assert found.lead == "Cyclists may cross."


TEXT = st.text(st.sampled_from("ab \n\u00a0\u2019\u201c\"'\u2013-\u0301\u00e9\ufb01.\u200b\u00ad…½A"), max_size=60)


@given(TEXT)
def test_every_normalized_character_comes_from_a_range_of_the_original(text: str) -> None:
    found = NormalizedText.of(text)
    assert len(found.text) == len(found.starts) == len(found.ends)
    assert list(found.starts) == sorted(found.starts)
    for start, end in zip(found.starts, found.ends, strict=True):
        assert 0 <= start < end <= len(text)


@given(TEXT)
def test_normalizing_twice_changes_nothing(text: str) -> None:
    assert normalized(normalized(text)) == normalized(text)


@settings(max_examples=200)
@given(TEXT, st.data())
def test_each_part_of_a_page_that_is_long_enough_is_found_where_it_says_the_same(
    text: str, data: st.DataObject
) -> None:
    page = f"one two three {text} four five six"
    start = data.draw(st.integers(0, 3))
    quote = page[[0, 4, 8, 14][start] :]
    for found in QuotableText(page).find(quote):
        assert normalized(page[found.place.start : found.place.end]) == normalized(quote)


@given(st.text(max_size=300))
def test_sentences_are_ordered_and_leave_out_nothing_but_space(text: str) -> None:
    ranges = sentence_ranges(text)
    end = 0
    for each in ranges:
        assert text[end : each.start].strip() == ""
        assert each.start < each.end
        end = each.end
    assert text[end:].strip() == ""


def test_abbreviations_and_wrapped_lines_do_not_end_a_sentence() -> None:
    wrapped = "He left the small town in the north at 5 p.m. on the\nMonday after Easter."
    assert sentences_of(f"Dr. Moe spoke, e.g. about J. Ito.\n{wrapped} Then 3.5 km.") == [
        "Dr. Moe spoke, e.g. about J. Ito.",
        wrapped,
        "Then 3.5 km.",
    ]
    assert sentences_of("Heading\nThe text.\n\n- one\n- two") == ["Heading", "The text.", "- one", "- two"]
