"""Finds the names that are most similar to a misspelled one. Fast even for tens of thousands of names."""

import heapq
from collections.abc import Iterable
from difflib import SequenceMatcher

_LONGEST = 200  # characters of a name that are compared
# Only this many candidates, the best by shared letter pairs, are compared in full (difflib takes about 20 us each).
_SHORT_LIST = 40


def nearest(name: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """Return the `limit` most similar names, or all names if there are fewer, best first.

    A first pass counts shared letter pairs (Dice), a second compares the best candidates with difflib's ratio. Ties are
    sorted by name.
    """
    wanted = name[:_LONGEST].lower()
    pairs = _pairs(wanted)
    short_list = heapq.nsmallest(_SHORT_LIST, set(names), key=lambda each: (-_dice(pairs, _pairs(each.lower())), each))
    matcher = SequenceMatcher(b=wanted, autojunk=False)

    def score(each: str) -> float:
        matcher.set_seq1(each.lower())
        return matcher.ratio()

    return heapq.nsmallest(limit, short_list, key=lambda each: (-score(each), each))


def _pairs(text: str) -> frozenset[str]:
    padded = f"^{text[:64]}$"
    return frozenset(padded[i : i + 2] for i in range(len(padded) - 1))


def _dice(a: frozenset[str], b: frozenset[str]) -> float:
    return 2 * len(a & b) / (len(a) + len(b))
