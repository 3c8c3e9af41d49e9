"""Splits a request that asks for several things into its clauses, so that each can be searched for.

A search for a long request finds tools that match a little of everything. "Track my package, and suggest colours for a
banner" needs two tools, each of which matches half of the words.
"""

import re

from engine.retrieval.terms import Terms

MOST_CLAUSES = 8  # only the first clauses of a request are searched for
FEWEST_TERMS = 2  # a clause with fewer search terms is too short to be searched for on its own
# Verbs with which people ask for something. A conjunction before one of them starts a new clause.
VERBS = frozenset(
    # Split from a string, because a list would have one word per line. Ruff reports the string's first line:
    "add analyze analyse book build buy calculate cancel change check choose collect compare compute convert copy "  # noqa: SIM905
    "count create decode delete deliver describe detect determine display download draw email encode estimate "
    "evaluate examine explain explore extract fetch filter find fix generate get give help identify import include "
    "insert install know learn list locate look make measure merge modify monitor move notify obtain open order "
    "organize pay plan play post predict print process provide publish pull read recommend record remind remove "
    "rename replace report request reserve resize retrieve return save scan schedule search see select sell send set "
    "share show solve sort split start stop store suggest summarize tell test track transcribe transfer translate "
    "update upload use validate verify view watch write".split()
)
# No alternative begins within white space, so that the time is linear in its length.
_ENDS = re.compile(r"(?<=[.!?;])\s+|(?<!\s)\s*\n+\s*(?:(?:[-*\u2022]|\d+[.)])\s+)?")
_JOINS = re.compile(
    r"(?:[,;]|(?<![\s,;]))\s++(?:and\s+then|and\s+also|as\s+well\s+as|and|then|plus|also|additionally)\s+"
    r"(?=(?:(?:please|also|then)\s+)?(?:(?:can|could|would|will)\s+you\s+|i\s+(?:need|want|would)\b|(\w+)))",
    re.IGNORECASE,
)


def clauses_of(request: str, terms: Terms) -> list[str]:
    """Return the clauses of a request in order, at most `MOST_CLAUSES`; an empty list if it has only one."""
    found: list[str] = []
    for sentence in _ENDS.split(request):
        start = 0
        for join in _JOINS.finditer(sentence):
            if join[1] is None or join[1].casefold() in VERBS:
                found.append(sentence[start : join.start()])
                start = join.end()
        found.append(sentence[start:])
    clauses = [clause.strip() for clause in found if len(terms.with_words(clause)) >= FEWEST_TERMS]
    return clauses[:MOST_CLAUSES] if len(clauses) > 1 else []
