"""The action `activity`: shows sessions, the locks that they wait for, and chains of sessions that block each other."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from builtin_tools.database.catalog_queries import SESSIONS
from builtin_tools.database.cells import TABLE_LENGTH, one_line
from builtin_tools.database.outputs import ActivityOutput, SessionRow
from builtin_tools.database.query import reading
from builtin_tools.database.sessions import Session
from engine.contract.context import Produced

MAX_SESSIONS = 100
STATEMENT_LENGTH = 200
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def activity(session: Session) -> Produced[ActivityOutput]:
    """Return the sessions of the database, except this one.

    Raises:
        ToolFailure: The database cannot be read.
    """
    with reading(session):
        found = session.connection.execute(SESSIONS).fetchall()
    rows: list[SessionRow] = [
        {
            "pid": pid,
            "user": user,
            "application": one_line(application, 63),
            "state": state,
            "state_s": round(state_s or 0.0, 3),
            "transaction_s": None if transaction_s is None else round(transaction_s, 3),
            "waits_for": waits_for,
            "blocked_by": list(dict.fromkeys(blocked_by)),
            "statement": one_line(" ".join(statement.split()), STATEMENT_LENGTH),
        }
        for pid, user, application, state, state_s, transaction_s, waits_for, blocked_by, statement in found
    ]
    return Produced({"sessions": rows[:MAX_SESSIONS], "total": len(rows)}, activity_text(rows))


def activity_text(rows: Sequence[SessionRow]) -> str:
    """Return the activity as text: chains of blocked sessions first, then the other sessions."""
    if not rows:
        return "There are no other sessions."
    by_pid = {row["pid"]: row for row in rows}
    waiting: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        for blocker in row["blocked_by"]:
            waiting[blocker].append(row["pid"])
    lines: list[str] = []
    in_chains: set[int] = set()
    if waiting:
        lines.append("Blocked sessions, each below the one that it waits for:")
        roots = [pid for pid in waiting if not by_pid.get(pid, _hidden(pid))["blocked_by"]]
        for root in roots or list(waiting)[:1]:  # in a deadlock, each waits for another
            lines += _chain(root, by_pid, waiting, in_chains, 0)
        lines.append("")
    others = [row for row in rows if row["pid"] not in in_chains]
    busy = [row for row in others if row["state"] != "idle"]
    idle = len(others) - len(busy)
    if busy:
        lines.append("Other sessions that do something or have an open transaction:")
        lines += [f"  {_session(row)}" for row in busy]
    lines.append(f"{idle} idle session{'s' if idle != 1 else ''}.")
    return _bounded(lines)


def _chain(
    pid: int, by_pid: Mapping[int, SessionRow], waiting: Mapping[int, list[int]], seen: set[int], depth: int
) -> Iterator[str]:
    if pid in seen:
        return
    seen.add(pid)
    yield f"  {'    ' * min(depth, 8)}{'└── ' if depth else ''}{_session(by_pid.get(pid, _hidden(pid)))}"
    for next_pid in waiting.get(pid, ()):
        yield from _chain(next_pid, by_pid, waiting, seen, depth + 1)


def _session(row: SessionRow) -> str:
    who = f"{row['pid']} {row['user']}" + (f" ({row['application']})" if row["application"] else "")
    doing = f"waits for {row['waits_for']}, " if row["waits_for"] else ""
    doing += f"{row['state']} for {duration_text(row['state_s'])}"
    if row["transaction_s"] is not None:
        doing += f", transaction open for {duration_text(row['transaction_s'])}"
    return f"{who}: {doing}: {row['statement']}" if row["statement"] else f"{who}: {doing}"


def duration_text(seconds: float) -> str:
    """Return a duration in the two largest units that it has."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def _hidden(pid: int) -> SessionRow:
    """Return a row for a blocking process that is no client, such as a prepared transaction (0) or autovacuum."""
    return {
        "pid": pid,
        "user": "a prepared transaction" if pid == 0 else "a background process",
        "application": "",
        "state": "active",
        "state_s": 0.0,
        "transaction_s": None,
        "waits_for": "",
        "blocked_by": [],
        "statement": "",
    }


def _bounded(lines: Sequence[str]) -> str:
    kept: list[str] = []
    length = 0
    for line in lines:
        if length + len(line) > TABLE_LENGTH:
            return "\n".join([*kept, f"[{len(lines) - len(kept):,} more lines]"])
        kept.append(line)
        length += len(line) + 1
    return "\n".join(kept)
