"""Passages are ranges of a document's text, follow its headings, and lose nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from builtin_tools.documents.extraction import ExtractedText, Heading
from builtin_tools.memory.documents.passages import MOST, split

WORDS = some.sampled_from(["word", "Sentence.", "Was? ", "\n", "\n\n", "x" * 1500, "  ", "ende。", '"Quote." '])


@some.composite
def documents(draw: some.DrawFn) -> ExtractedText:
    text = " ".join(draw(some.lists(WORDS, max_size=120)))
    places = some.integers(0, len(text))
    headings = draw(some.lists(some.builds(Heading, places, some.integers(1, 6), some.text(min_size=1, max_size=5))))
    return ExtractedText(text, "t", tuple(sorted(draw(some.lists(places, max_size=5)))), tuple(headings))


@pytest.mark.spec("MEM-3")
@given(documents())
def test_passages_are_ranges_of_the_text_that_lose_nothing_and_cross_no_heading_or_page(
    document: ExtractedText,
) -> None:
    found = split(document)
    at = 0
    for each in found:
        assert each.text == document.text[each.start : each.end]
        assert each.text == each.text.strip()
        assert 0 < len(each.text) <= MOST
        assert not document.text[at : each.start].strip()
        assert not any(each.start < heading.start < each.end for heading in document.headings)
        assert not any(each.start < page < each.end for page in document.pages)
        if each.page is not None:
            assert each.page == sum(start <= each.start for start in document.pages)
        at = each.end
    assert not document.text[at:].strip()


@pytest.mark.spec("MEM-3")
def test_a_passage_is_titled_with_the_headings_above_it() -> None:
    text = "Intro\n\nA\n\none\n\nB\n\ntwo\n\nC\n\nthree"
    headings = (Heading(7, 1, "A"), Heading(15, 2, "B"), Heading(23, 1, "C"))
    found = split(ExtractedText(text, headings=headings))
    assert [(each.title, each.text) for each in found] == [
        ("", "Intro"),
        ("A", "A\n\none"),
        ("A > B", "B\n\ntwo"),
        ("C", "C\n\nthree"),
    ]
