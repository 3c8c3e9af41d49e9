"""Splits text into search terms: stemmed words and parts of names, without stop words."""

import re
from collections.abc import Iterator

import Stemmer

# Words of English requests that do not distinguish tools: the 33 stop words of Lucene's EnglishAnalyzer, and the
# pronouns, auxiliary verbs and polite phrases that are common in requests.
STOP_WORDS = frozenset(
    # Split from a string, because a list would have one word per line. Ruff reports the string's first line:
    "a an and are as at be but by for if in into is it no not of on or such that the their then "  # noqa: SIM905
    "there these they this to was will with "
    "i me my we us our you your he she him her his its them who what which where when why how "
    "am been being do does did have has had can could would should shall may might must "
    "please want need like from about than so just also any some all".split()
)
WORD = re.compile(r"\w+")
# Boundaries inside a name: snake_case, camelCase, HTTPServer.
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
NUMBER_WEIGHT = 0.3  # a number in a request is usually the value of an argument, and tools are not named after it


class Terms:
    """Splits and stems text. Not thread-safe, since the stemmer has a cache."""

    def __init__(self, language: str = "english") -> None:
        """Create a splitter.

        Args:
            language: The name of one of PyStemmer's (Snowball) algorithms.
        """
        self._stemmer = Stemmer.Stemmer(language)

    def of(self, text: str) -> list[str]:
        """Return the terms of a text in order, including repetitions."""
        stems: list[str] = self._stemmer.stemWords(list(_words(text)))
        return stems

    def with_words(self, text: str) -> dict[str, str]:
        """Return each term once, in order, with the first word that it was stemmed from."""
        words = list(_words(text))
        found: dict[str, str] = {}
        for stem, word in zip(self._stemmer.stemWords(words), words, strict=True):
            found.setdefault(stem, word)
        return found


def encodable(text: str) -> str:
    """Return a text with `?` for what UTF-8 cannot encode, such as the surrogates in arguments of a command line."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def weight_of(term: str) -> float:
    """Return the weight of a term of a request, before it is multiplied by the term's rarity."""
    return NUMBER_WEIGHT if term[0].isdigit() else 1.0


def spelled_out(name: str) -> str:
    """Return a name as separate words: ``math.hypotOf_two`` becomes "math hypot Of two"."""
    return " ".join(part for word in WORD.findall(name) for part in CAMEL.split(word) if part)


def _words(text: str) -> Iterator[str]:
    for word in WORD.findall(text):
        for part in CAMEL.split(word):
            if part and (folded := part.casefold()) not in STOP_WORDS:
                yield folded
