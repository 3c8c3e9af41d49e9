"""Groups sources that are copies of each other, so that near-copies count once.

Two pages are near-copies if at least half of the different sequences of five words of both together are in both
(Jaccard similarity, as in Broder, "On the resemblance and containment of documents", 1997), or if 80 percent of the
shorter page is in the longer one. A check reads at most a few dozen pages, so the sets are compared exactly instead of
by MinHash. Pages of one site count once, too, and so do quotations with the same words.
"""

import re
from collections.abc import Sequence
from itertools import combinations
from urllib.parse import urlsplit

from builtin_tools.web.contract import Page
from builtin_tools.web.research.verification.claims import Citation, NumberedPage
from builtin_tools.web.research.verification.quotes import MOST_SEARCHED

SHINGLE = 5  # words
RESEMBLANCE = 0.5
CONTAINMENT = 0.8
LEAST_SHINGLES = 8  # of a text; shorter ones resemble each other by chance
MOST_WORDS = 50_000  # of a page that are compared
_WORD = re.compile(r"\w+")
_SUBDOMAINS = ("www.", "m.", "amp.", "mobile.")


def source_groups(sources: Sequence[NumberedPage]) -> dict[int, int]:
    """Return the group of each source: the smallest number of the sources that are not independent of it."""
    shingles = {each.number: shingles_of(each.page.text) for each in sources}
    groups = {each.number: each.number for each in sources}
    for one, other in combinations(sources, 2):
        same_site = site_of(one.page) == site_of(other.page)
        if same_site or near_copies(shingles[one.number], shingles[other.number]):
            old, new = sorted((groups[one.number], groups[other.number]), reverse=True)
            groups = {number: new if group == old else group for number, group in groups.items()}
    return groups


def independent(citations: Sequence[Citation], groups: dict[int, int]) -> int:
    """Return how many independent sources some quotations come from."""
    texts: list[frozenset[int]] = []
    counted: set[int] = set()
    for citation in citations:
        group = groups[citation.source]
        if group in counted:
            continue
        text = shingles_of(citation.quote)
        if any(near_copies(text, each) for each in texts):
            continue
        counted.add(group)
        texts.append(text)
    return len(counted)


def near_copies(one: frozenset[int], other: frozenset[int]) -> bool:
    """Return whether two sets of shingles are those of near-copies."""
    shared, smaller = len(one & other), min(len(one), len(other))
    if smaller < LEAST_SHINGLES:
        return False
    return shared >= RESEMBLANCE * len(one | other) or shared >= CONTAINMENT * smaller


def shingles_of(text: str) -> frozenset[int]:
    """Return the hashes of all sequences of `SHINGLE` words of a text, in lower case."""
    words = [word.casefold() for word in _WORD.findall(text[:MOST_SEARCHED])[:MOST_WORDS]]
    return frozenset(hash(tuple(words[at : at + SHINGLE])) for at in range(len(words) - SHINGLE + 1))


def site_of(page: Page) -> str:
    """Return the host of a page, without subdomains such as ``www.``, with the port."""
    host = urlsplit(page.final_url).netloc.rpartition("@")[2].lower()
    for prefix in _SUBDOMAINS:
        if host.startswith(prefix) and host.count(".") > 1:
            return host.removeprefix(prefix)
    return host
