"""Text into search terms: words and parts of names, without stop words, stemmed."""

import re
from collections.abc import Iterator

import Stemmer

# The words of English requests that tell no tool from another: the classic list of 33 of Lucene's EnglishAnalyzer,
# and the pronouns, auxiliaries and courtesies of somebody asking for something.
STOP_WORDS = frozenset(
    # One word a line would hide the list. The rule points at its first line:
    "a an and are as at be but by for if in into is it no not of on or such that the their then "  # noqa: SIM905
    "there these they this to was will with "
    "i me my we us our you your he she him her his its them who what which where when why how "
    "am been being do does did have has had can could would should shall may might must "
    "please want need like from about than so just also any some all".split()
)
WORD = re.compile(r"\w+")
# Boundaries inside a name: snake_case, camelCase, HTTPServer.
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
NUMBER_WEIGHT = 0.3  # a number in a request is an argument's value as a rule, and no tool is called after it


class Terms:
    """Splits and stems. Not for two threads at once: the stemmer keeps a cache."""

    def __init__(self, language: str = "english") -> None:
        """language: one of PyStemmer's (Snowball) algorithms."""
        self._stemmer = Stemmer.Stemmer(language)

    def of(self, text: str) -> list[str]:
        """The terms of a text in order, repeated as often as they occur."""
        stems: list[str] = self._stemmer.stemWords(list(_words(text)))
        return stems

    def with_words(self, text: str) -> dict[str, str]:
        """Each term once, in order, with the first word it was the stem of."""
        words = list(_words(text))
        found: dict[str, str] = {}
        for stem, word in zip(self._stemmer.stemWords(words), words, strict=True):
            found.setdefault(stem, word)
        return found


def weight_of(term: str) -> float:
    """How much a term of a request counts, before its rarity."""
    return NUMBER_WEIGHT if term[0].isdigit() else 1.0


def spelled_out(name: str) -> str:
    """A name as words: ``math.hypotOf_two`` is "math hypot Of two"."""
    return " ".join(part for word in WORD.findall(name) for part in CAMEL.split(word) if part)


def _words(text: str) -> Iterator[str]:
    for word in WORD.findall(text):
        for part in CAMEL.split(word):
            if part and (folded := part.casefold()) not in STOP_WORDS:
                yield folded
