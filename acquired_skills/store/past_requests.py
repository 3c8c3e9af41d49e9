"""`PastRequests`: the requests that a skill was called for with success. They help to find it, and nobody sees them.

A row of a skill carries the generation of its last change, so a process reads only what another one changed.
"""

import json
from collections.abc import Collection, Sequence
from itertools import combinations

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, Text, delete, select, tuple_, update

from engine.retrieval.terms import Terms
from engine.stores.records import Records

REQUESTS = "skill_requests"
MOST_KEPT = 10  # of one skill, whatever its version
MOST_CHARACTERS = 500  # of one
SAME = 0.8  # share of the terms in either that are in both: then the newer takes the older's place

SCHEMA = MetaData()
_REQUESTS = Table(
    "skill_requests",
    SCHEMA,
    Column("name", String(63), primary_key=True),
    Column("generation", BigInteger, nullable=False, index=True),
    Column("requests", Text, nullable=False),
)


class PastRequests:
    """In the records. Every method blocks."""

    def __init__(self, records: Records) -> None:
        """Makes its table when it is missing."""
        self._records = records
        records.create(SCHEMA)

    def generation(self) -> int:
        """Of all of them; cheap while nothing changed."""
        return self._records.generation(REQUESTS)

    def changed(self, after: int = 0) -> dict[str, tuple[str, ...]]:
        """Of the skills whose requests changed after a generation, the requests, oldest first."""
        query = select(_REQUESTS).where(_REQUESTS.c.generation > after)
        with self._records.read() as connection:
            return {row.name: _read(row.requests) for row in connection.execute(query)}

    def of(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The requests of these skills, oldest first."""
        query = select(_REQUESTS).where(_REQUESTS.c.name.in_(list(names)))
        with self._records.read() as connection:
            return {row.name: _read(row.requests) for row in connection.execute(query)}

    def changed_next(self, after: tuple[int, str], limit: int) -> list[tuple[int, str]]:
        """Generation and name of the next skills whose requests changed, in the order of the changes. after: of the
        last one that was read."""
        place = tuple_(_REQUESTS.c.generation, _REQUESTS.c.name)
        query = select(_REQUESTS.c.generation, _REQUESTS.c.name).where(place > tuple_(*after)).order_by(*place.clauses)
        with self._records.read() as connection:
            return [(row.generation, row.name) for row in connection.execute(query.limit(limit))]

    def keep(self, new: Sequence[tuple[str, str]]) -> None:
        """Add requests, given as (skill, request), the oldest first."""
        by_name: dict[str, list[str]] = {}
        for name, request in new:
            text = " ".join(request.split())[:MOST_CHARACTERS].encode(errors="replace").decode()
            if text:
                by_name.setdefault(name, []).append(text)
        if not by_name:
            return
        with self._records.begin() as connection:
            rows = connection.execute(select(_REQUESTS).where(_REQUESTS.c.name.in_(by_name)))
            known = {row.name: _read(row.requests) for row in rows}
            after = {name: chosen_of((*known.get(name, ()), *more)) for name, more in by_name.items()}
            differing = {name: chosen for name, chosen in after.items() if chosen != known.get(name)}
            if not differing:
                return
            generation = self._records.bump(REQUESTS, connection)
            for name, chosen in differing.items():
                values = {"generation": generation, "requests": json.dumps(chosen)}
                if not connection.execute(update(_REQUESTS).where(_REQUESTS.c.name == name).values(**values)).rowcount:
                    connection.execute(_REQUESTS.insert().values(name=name, **values))


def forget(connection: Connection, names: Collection[str]) -> None:
    """Delete the requests of these skills, within the connection's transaction."""
    connection.execute(delete(_REQUESTS).where(_REQUESTS.c.name.in_(list(names))))


def chosen_of(requests: Sequence[str]) -> tuple[str, ...]:
    """At most MOST_KEPT of them, given oldest first: of two that are alike the newer, then the most different."""
    splitter = Terms()
    kept: list[tuple[str, frozenset[str]]] = []
    for request in requests:
        terms = frozenset(splitter.of(request))
        kept = [one for one in kept if one[0] != request and _alike(one[1], terms) < SAME]
        kept.append((request, terms))
        if len(kept) > MOST_KEPT:
            # Of the two most alike the older goes; among equals, the oldest.
            older, _ = max(combinations(range(len(kept)), 2), key=lambda two: (_alike_at(kept, two), -two[0], -two[1]))
            del kept[older]
    return tuple(request for request, _ in kept)


def _alike_at(kept: Sequence[tuple[str, frozenset[str]]], two: tuple[int, int]) -> float:
    return _alike(kept[two[0]][1], kept[two[1]][1])


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of their terms that both have; of two without any, 1."""
    both = one | other
    return len(one & other) / len(both) if both else 1.0


def _read(text: str) -> tuple[str, ...]:
    return tuple(str(each) for each in json.loads(text))
