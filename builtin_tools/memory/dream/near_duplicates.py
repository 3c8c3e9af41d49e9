"""Decides whether two facts say the same thing in different words. The rules are cautious, because merging must never
lose a fact.

Words are compared by their stems and, where these differ, by the cosine of their word vectors. Whatever usually
distinguishes two statements must be equal: numbers, names, negation, and who does what to whom.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from builtin_tools.memory.contradictions import contradicts
from builtin_tools.memory.entries import Entry
from builtin_tools.memory.statement_words import differences, expanded, number_words, same_value, words
from engine.retrieval.terms import Terms
from engine.stores.embedder import Embedder

# Minimum cosine of the WordLlama vectors of two synonyms. Most opposites are below 0.5.
SYNONYMS = 0.64
_FEWEST_SHARED = 0.4  # minimum share of words that two texts must have in common
_WORD = re.compile(r"[^\W_]+(?:[.:,/-][^\W_]+)*")
# Weak words: one text may lack them without a change of meaning.
_WEAK = frozenset(
    words(
        "really very quite actually currently now always just also too still already please right basically generally "
        "usually normally typically definitely certainly apparently well oh yes so then thing things there here it its "
        "that this these those which who one own get got"
    )
)
# Opposites whose vectors are as similar as those of synonyms.
_OPPOSITES = tuple(
    frozenset(words(pair))
    for pair in (
        "upstairs downstairs", "buy sell", "bought sold", "early late", "before after", "more less", "most least",
        "open close", "opened closed", "first last", "up down", "left right", "in out", "inside outside", "above below",
        "increase decrease", "minimum maximum", "arrive leave", "arrives leaves", "lend borrow", "lent borrowed",
        "win lose", "won lost", "import export", "upper lower", "male female", "mother father", "son daughter",
        "brother sister", "husband wife", "morning evening", "today tomorrow", "yesterday tomorrow", "north south",
        "east west", "start end", "starts ends", "began ended", "love hate", "like dislike", "likes dislikes",
        "hot cold", "warm cold", "old new", "young old", "day night", "lunch dinner", "breakfast dinner", "push pull",
        "send receive", "sent received", "teach learn", "front back", "front rear", "king queen", "he she", "his her",
        "spring autumn", "summer winter", "weekly monthly", "daily weekly", "daily monthly", "monthly yearly",
    )
)  # fmt: skip
_DAYS = frozenset(words("monday tuesday wednesday thursday friday saturday sunday"))
_MONTHS = frozenset(words("january february march april may june july august september october november december"))


@dataclass(frozen=True, slots=True)
class _FactWords:
    """The words of a fact, prepared for the rules that compare facts.

    Attributes:
        content: The stems of its words in order, without stop words and words that add no meaning, such as "really".
        word_of: For each stem, the first word with this stem.
        names: Capitalized words in order, except for the first word and for names of days and months.
        first: The first word. It is capitalized in any case, so it may or may not be a name.
        fixed: Numbers, and names of days and months, sorted.
    """

    content: tuple[str, ...]
    word_of: dict[str, str]
    names: tuple[str, ...]
    first: str
    fixed: tuple[str, ...]

    def names_beside(self, other: "_FactWords") -> tuple[str, ...]:
        """Return the names in this text, including its first word if that is a name in the other text."""
        return (self.first, *self.names) if self.first in other.names else self.names


class NearDuplicates:
    """Compares facts. Not thread-safe, since the stemmer has a cache."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._terms = Terms()
        self._read: dict[str, _FactWords] = {}

    def same(self, one: Entry, other: Entry) -> bool:
        """Return whether two facts with the same owner and space say the same thing."""
        if differences(one.text, other.text):
            return False
        first, second = one.statement, other.statement
        if first is not None and second is not None:
            about = (first.subject, first.attribute) == (second.subject, second.attribute)
            if about and (contradicts(first, second) or first.negated != second.negated):
                return False
            if about and same_value(first.value, second.value) and len(first.value) == len(second.value):
                return True
        left, right = self._words(one.text), self._words(other.text)
        if left.fixed != right.fixed or not left.content or not right.content:
            return False
        if left.names_beside(right) != right.names_beside(left):
            return False
        return self._same_words(left, right)

    def _same_words(self, left: _FactWords, right: _FactWords) -> bool:
        common = set(left.content) & set(right.content)
        if len(common) < _FEWEST_SHARED * max(len(set(left.content)), len(set(right.content))):
            return False
        pairs = self._pairs(
            [stem for stem in dict.fromkeys(left.content) if stem not in common],
            [stem for stem in dict.fromkeys(right.content) if stem not in common],
            left,
            right,
        )
        if pairs is None:
            return False
        renamed = tuple(pairs.get(stem, stem) for stem in dict.fromkeys(left.content))
        return _rotated(renamed, tuple(dict.fromkeys(right.content)))

    def _pairs(
        self, ours: Sequence[str], theirs: Sequence[str], left: _FactWords, right: _FactWords
    ) -> dict[str, str] | None:
        """Pair the stems that only one of two facts contains with synonyms in the other.

        Args:
            ours: The stems that only `left` contains.
            theirs: The stems that only `right` contains.
            left: The words of one fact.
            right: The words of the other fact.

        Returns:
            The synonym in `theirs` of each stem of `ours`; None if any stem of `ours` or `theirs` is left over.
        """
        if len(ours) != len(theirs):
            return None
        if not ours:
            return {}
        mine, yours = [left.word_of[stem] for stem in ours], [right.word_of[stem] for stem in theirs]
        cosines = self._embedder.embed(mine) @ self._embedder.embed(yours).T
        pairs: dict[str, str] = {}
        free = set(range(len(theirs)))
        for at, stem in enumerate(ours):
            best = max(free, key=lambda column: float(cosines[at, column]))
            if cosines[at, best] < SYNONYMS or frozenset((mine[at], yours[best])) in _OPPOSITES:
                return None
            free.discard(best)
            pairs[stem] = theirs[best]
        return pairs

    def _words(self, text: str) -> _FactWords:
        found = self._read.get(text)
        if found is None:
            found = self._read[text] = self._split(text)
        return found

    def _split(self, text: str) -> _FactWords:
        plain = number_words(expanded(text))
        tokens = _WORD.findall(plain)
        lower = [token.lower() for token in tokens]
        fixed = sorted(word for word in lower if any(c.isdigit() for c in word) or word in _DAYS or word in _MONTHS)
        names = [
            word
            for at, (written, word) in enumerate(zip(tokens, lower, strict=True))
            if at and written[0].isupper() and written != "I" and word not in _DAYS and word not in _MONTHS
        ]
        kept = [word for word in lower if word not in _WEAK]
        content: list[str] = []
        word_of: dict[str, str] = {}
        for word in kept:
            for stem in self._terms.of(word):
                content.append(stem)
                word_of.setdefault(stem, word)
        return _FactWords(tuple(content), word_of, tuple(names), lower[0] if lower else "", tuple(fixed))


def _rotated(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether moving words from the beginning of one sequence to its end makes it equal to the other.

    True for "on Friday she swims" and "she swims on Friday", but not for "the dog bit the man" and "the man bit the
    dog".
    """
    return len(one) == len(other) and (one == other or any(one[at:] + one[:at] == other for at in range(1, len(one))))
