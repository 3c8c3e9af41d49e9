"""`PastRequests`: stores the requests for which skills and other tools were called successfully, for use in retrieval.

The requests are never shown. A row has the generation of its last change (a counter that every change increments), so
that a process only needs to read the rows that other processes changed.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import combinations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    MetaData,
    String,
    Table,
    Text,
    delete,
    inspect,
    select,
    tuple_,
    update,
)
from sqlalchemy import text as raw_sql

from engine.retrieval.terms import Terms
from engine.stores.records import Records

REQUESTS = "skill_requests"
MOST_KEPT = 32  # maximum number of requests for one tool, over all its versions
LONGEST_NAME = 200  # characters; names of remote tools consist of those of a module and of a tool
MOST_CHARACTERS = 500  # maximum number of characters of one request
SHORTEST_TEXT = 4  # minimum number of characters of a text to forget; shorter texts occur in many requests by chance
SAME = 0.8  # smallest share of common terms at which a newer request replaces an older one

SCHEMA = MetaData()
_REQUESTS = Table(
    "skill_requests",
    SCHEMA,
    Column("name", String(LONGEST_NAME), primary_key=True),
    Column("generation", BigInteger, nullable=False, index=True),
    Column("requests", Text, nullable=False),
)


def widen_names(connection: Connection) -> None:
    """Widen the column of names in a table that an earlier release created. SQLite does not limit their length."""
    if connection.dialect.name != "postgresql":
        return
    (names,) = (each for each in inspect(connection).get_columns(_REQUESTS.name) if each["name"] == "name")
    if getattr(names["type"], "length", LONGEST_NAME) < LONGEST_NAME:
        connection.execute(raw_sql(f"ALTER TABLE {_REQUESTS.name} ALTER COLUMN name TYPE VARCHAR({LONGEST_NAME})"))


class PastRequests:
    """Reads and writes the table of requests. Every method blocks."""

    def __init__(self, records: Records) -> None:
        """Create the table if it is missing."""
        self._records = records
        records.create(SCHEMA)

    def generation(self) -> int:
        """Return the generation of the requests. This is cheap while nothing changes."""
        return self._records.generation(REQUESTS)

    def changed(self, after: int = 0) -> dict[str, tuple[str, ...]]:
        """Return the requests of the tools whose requests changed after a generation, oldest request first."""
        query = select(_REQUESTS).where(_REQUESTS.c.generation > after)
        with self._records.read() as connection:
            return {row.name: _read(row.requests) for row in connection.execute(query)}

    def of(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the requests of these tools, oldest first."""
        query = select(_REQUESTS).where(_REQUESTS.c.name.in_(list(names)))
        with self._records.read() as connection:
            return {row.name: _read(row.requests) for row in connection.execute(query)}

    def changed_next(self, after: tuple[int, str], limit: int) -> list[tuple[int, str]]:
        """Return the generation and the name of the next tools whose requests changed, in the order of the changes.

        Args:
            after: The generation and the name that were read last.
        """
        place = tuple_(_REQUESTS.c.generation, _REQUESTS.c.name)
        query = select(_REQUESTS.c.generation, _REQUESTS.c.name).where(place > tuple_(*after)).order_by(*place.clauses)
        with self._records.read() as connection:
            return [(row.generation, row.name) for row in connection.execute(query.limit(limit))]

    def keep(self, new: Sequence[tuple[str, str] | tuple[str, str, str]]) -> None:
        """Store requests, given oldest first as (tool, request) or (tool, request, user)."""
        by_name: dict[str, list[tuple[str, str]]] = {}
        for name, request, *user in new:
            text = " ".join(request.split())[:MOST_CHARACTERS].encode(errors="replace").decode()
            if text and len(name) <= LONGEST_NAME:
                by_name.setdefault(name, []).append((text, user[0] if user else ""))
        if not by_name:
            return
        with self._records.begin() as connection:
            rows = connection.execute(select(_REQUESTS).where(_REQUESTS.c.name.in_(by_name)))
            known = {row.name: _read_with_users(row.requests) for row in rows}
            after = {name: _chosen((*known.get(name, ()), *more)) for name, more in by_name.items()}
            differing = {name: chosen for name, chosen in after.items() if chosen != known.get(name)}
            if not differing:
                return
            generation = self._records.bump(REQUESTS, connection)
            for name, chosen in differing.items():
                values = {"generation": generation, "requests": json.dumps(chosen)}
                if not connection.execute(update(_REQUESTS).where(_REQUESTS.c.name == name).values(**values)).rowcount:
                    connection.execute(_REQUESTS.insert().values(name=name, **values))

    def forget_texts(self, texts: Sequence[str]) -> int:
        """Delete the requests that contain one of these texts or are a long part of one, and return their number."""
        wanted = [folded for text in texts if len(folded := _folded(text)) >= SHORTEST_TEXT]
        if not wanted:
            return 0
        with self._records.begin() as connection:
            rows = connection.execute(select(_REQUESTS)).all()
            kept = {row.name: _read_with_users(row.requests) for row in rows}
            after = {
                name: tuple(each for each in requests if not _contains_any(_folded(each[0]), wanted))
                for name, requests in kept.items()
            }
            differing = {name: requests for name, requests in after.items() if requests != kept[name]}
            if differing:
                generation = self._records.bump(REQUESTS, connection)
                for name, requests in differing.items():
                    values = {"generation": generation, "requests": json.dumps(requests)}
                    connection.execute(update(_REQUESTS).where(_REQUESTS.c.name == name).values(**values))
        return sum(len(kept[name]) - len(requests) for name, requests in differing.items())


def forget(connection: Connection, names: Collection[str]) -> None:
    """Delete the requests of these skills in the transaction of the connection."""
    connection.execute(delete(_REQUESTS).where(_REQUESTS.c.name.in_(list(names))))


def chosen_of(requests: Sequence[str]) -> tuple[str, ...]:
    """Return at most `MOST_KEPT` of these requests of one user.

    Of two similar requests, only the newer is kept. If there are still too many, those that differ most are kept.

    Args:
        requests: The requests, oldest first.
    """
    return tuple(request for request, _ in _chosen([(request, "") for request in requests]))


def _chosen(requests: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Choose requests like `chosen_of`, but from pairs of a request and its user.

    If there are too many, a request of the user with the most requests is dropped, so that one user cannot displace the
    others.
    """
    splitter = Terms()
    kept: list[tuple[str, frozenset[str]]] = []
    users: dict[str, str] = {}
    for request, user in requests:
        terms = frozenset(splitter.of(request))
        kept = [one for one in kept if one[0] != request and _alike(one[1], terms) < SAME]
        kept.append((request, terms))
        users[request] = user
        if len(kept) > MOST_KEPT:
            counts = Counter(users[text] for text, _ in kept)
            most = max(counts.values())
            frequent = [at for at, (text, _) in enumerate(kept) if counts[users[text]] == most]
            # Of that user's two most similar requests, the older one is dropped. Of equally similar pairs, the pair
            # with the oldest request counts. If every user has a single request, the pair may belong to two users.
            among = frequent if most > 1 else range(len(kept))
            older, _ = max(combinations(among, 2), key=lambda two: (_alike_at(kept, two), -two[0], -two[1]))
            del kept[older]
    return tuple((request, users[request]) for request, _ in kept)


def _alike_at(kept: Sequence[tuple[str, frozenset[str]]], two: tuple[int, int]) -> float:
    return _alike(kept[two[0]][1], kept[two[1]][1])


def _folded(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .!?")


def _contains_any(request: str, texts: Sequence[str]) -> bool:
    """Return whether a request contains one of the texts, or is a long part of one because it was truncated."""
    long = len(request) >= MOST_CHARACTERS // 10
    return any(text in request or (long and request in text) for text in texts)


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of two requests' terms that occur in both requests; 1 if neither has any terms."""
    both = one | other
    return len(one & other) / len(both) if both else 1.0


def _read(text: str) -> tuple[str, ...]:
    return tuple(request for request, _ in _read_with_users(text))


def _read_with_users(text: str) -> tuple[tuple[str, str], ...]:
    """Parse requests with their users. Requests that version 0.1 of Knackbox stored have no users."""
    return tuple((each, "") if isinstance(each, str) else (str(each[0]), str(each[1])) for each in json.loads(text))
