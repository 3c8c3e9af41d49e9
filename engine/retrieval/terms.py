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


class Terms:
    """Splits and stems. Not for two threads at once: the stemmer keeps a cache."""

    def __init__(self, language: str = "english") -> None:
        """language: one of PyStemmer's (Snowball) algorithms."""
        self._stemmer = Stemmer.Stemmer(language)

    def of(self, text: str) -> list[str]:
        """The terms of a text in order, repeated as often as they occur."""
        stems: list[str] = self._stemmer.stemWords([word for word in _words(text) if word not in STOP_WORDS])
        return stems


def _words(text: str) -> Iterator[str]:
    for word in WORD.findall(text):
        for part in CAMEL.split(word):
            if part:
                yield part.casefold()
