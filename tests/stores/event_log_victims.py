"""Writers and readers of an event log that a test kills. They write what they did to files, before or after doing it."""

import os
import time
from typing import Any

from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.records import Records

PAUSE_S = 0.06  # of the last reader, so that leases expire


def opened(url: str, journal: str) -> tuple[EventLog, int]:
    everything = 10**9  # a long run appends more than the log keeps by default, and the test compares all of it
    log = EventLog(Records.open(url, power_cuts=True), SystemClock(), most_attempts=10_000, kept=everything)
    return log, os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write_on(pipe: Any, url: str, name: str, journal: str, first: int) -> None:
    """Append pairs of events without end, and record each pair after its append has returned."""
    log, out = opened(url, journal)
    pipe.send("ready")
    number = first
    while True:
        log.append_all([("made", {"by": name, "n": number}), ("made", {"by": name, "n": number + 1})])
        os.write(out, b"%d\n%d\n" % (number, number + 1))
        number += 2


def read_on(pipe: Any, url: str, journal: str, until_empty: bool) -> None:
    """Fetch and acknowledge events. Record deliveries before, and acknowledgements after they have returned."""
    log, out = opened(url, journal)
    log.subscribe("reader", from_start=True)
    pipe.send("ready")
    empty = 0
    while not until_empty or empty < 3:
        found = log.fetch("reader", 200 if until_empty else 20, lease_s=0.05)
        empty = 0 if found else empty + 1
        if not found and until_empty:
            time.sleep(PAUSE_S)
        kinds = [b"new" if each.attempt == 1 else b"again" for each in found]
        lines = [
            b"%s %d %s %d\n" % (kind, each.event.offset, each.event.payload["by"].encode(), each.event.payload["n"])
            for kind, each in zip(kinds, found, strict=True)
        ]
        os.write(out, b"".join(lines))
        log.ack("reader", [each.event.offset for each in found])
        os.write(out, b"".join(b"acked %d\n" % each.event.offset for each in found))
