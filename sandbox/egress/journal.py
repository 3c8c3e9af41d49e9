"""`Journal`: keeps a bounded list of the connections and attempts to connect out of a box, and informs a listener."""

import logging
from collections.abc import Callable

from sandbox.contract import Connection

OnConnection = Callable[[Connection], None]
_log = logging.getLogger(__name__)


class Journal:
    """Keeps the first `kept` connections of one job. The listener is called for every connection as it ends."""

    def __init__(self, kept: int, on_connection: OnConnection | None = None) -> None:
        self._kept = kept
        self._entries: list[Connection] = []
        self._left_out = 0
        self._on_connection = on_connection

    def add(self, connection: Connection) -> None:
        if len(self._entries) < self._kept:
            self._entries.append(connection)
        else:
            self._left_out += 1
        if self._on_connection is not None:
            try:
                self._on_connection(connection)
            except Exception:  # noqa: BLE001  (a failing listener must not end a job's connections; the outcome lists them anyway)
                _log.exception("the listener for egress connections failed and is not called again")
                self._on_connection = None

    @property
    def full(self) -> bool:
        return len(self._entries) >= self._kept

    def entries(self) -> tuple[Connection, ...]:
        """Return the entries, oldest first. If some were not kept, the last entry says how many."""
        if not self._left_out:
            return tuple(self._entries)
        return (*self._entries, Connection("", allowed=False, reason=f"connections not listed: {self._left_out}"))
