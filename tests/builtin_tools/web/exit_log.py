"""Reads from the log of a Tor exit which circuits have asked it for which hosts.

An exit logs the circuit of each cell that arrives, and then, for a cell that opens a stream, the name that it resolves. Both
happen before the next cell (tor 0.4.9: `circuit_get_by_circid_channel_impl`, `connection_exit_begin_conn`). The names
of circuits are the exit's own. Nothing here comes from the client.
"""

import re
from pathlib import Path

_CIRCUIT = re.compile(r"returning circuit (?P<circuit>0x[0-9a-f]+ for circ_id [0-9]+, channel ID [0-9]+)")
_HOST = re.compile(
    r'dns_resolve_impl\(\): (?:Launching|Connection .* (?:waiting for|found cached).*) "(?P<host>[^"]+)"\.?$'
)
_SET = re.compile(r"conflux_process_link\(\): Processing a CONFLUX_LINK for set (?P<set>[0-9A-F]+)")


def circuits_log(folder: Path) -> Path:
    """Return the log of the exit in a folder (see `CIRCUITS_LOG` in scripts/tor_network/nodes.py)."""
    return folder / "circuits.log"


def hosts_by_circuit(log: Path, start: int = 0) -> dict[str, list[str]]:
    """Return the hosts that each circuit has asked for, in order.

    The two circuits of a Conflux set count as one, because the exit knows that they belong together.

    Args:
        log: The log of the exit.
        start: The offset in bytes from which hosts are listed. Sets of circuits may have been linked earlier.
    """
    found: dict[str, list[str]] = {}
    sets: dict[str, str] = {}
    circuit, at = "", 0
    with log.open("rb") as lines:
        for raw in lines:
            line = raw.decode("ascii", "replace").rstrip()
            if match := _CIRCUIT.search(line):
                circuit = f"{log.parent.name} {match['circuit']}"
            elif match := _SET.search(line):
                sets[circuit] = f"{log.parent.name} set {match['set']}"
            elif at >= start and (match := _HOST.search(line)):
                found.setdefault(sets.get(circuit, circuit), []).append(match["host"])
            at += len(raw)
    return found
