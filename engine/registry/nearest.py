"""The names most like a wrong one. Stays quick with tens of thousands of names."""

import heapq
from collections.abc import Iterable
from difflib import SequenceMatcher

_LONGEST = 200  # characters of a name that are compared
# Only these many, the best by shared letter pairs, are compared in full (difflib is about 20 us a pair).
_SHORT_LIST = 40


def nearest(name: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """The `limit` most similar names, best first; fewer only when there are fewer.

    A first pass counts shared pairs of letters (Dice), a second compares the best ones with difflib's ratio.
    Equal scores are ordered by name.
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
