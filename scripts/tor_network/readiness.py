"""Waits until the test network can be used: all its nodes are known to the Tor for clients, and an exit answers it."""

import json
import re
import socket
import time
from pathlib import Path

from namespaces import WEB_GATEWAY
from nodes import GATE_NODE, nodes

READY_S = 120.0
READY_NAME = "ready.test"
_POLL_S = 0.5
_ANSWER_S = 10.0


def first_names() -> str:
    """Return the content of the resolver's file for a new network: one name, by which its exits are tried."""
    return json.dumps({READY_NAME: [WEB_GATEWAY]})


def wait_for(folder: Path) -> None:
    """Wait until the Tor for clients knows all nodes of the network and has resolved a name through an exit.

    Tor says that it is ready as soon as it can build circuits. In a new network that may be before the exits are known:
    the first consensus lists the relays that the authorities knew when they voted.

    Raises:
        TimeoutError: That took longer than `READY_S`.
    """
    deadline = time.monotonic() + READY_S
    while missing := what_is_missing(folder / GATE_NODE):
        if time.monotonic() >= deadline:
            raise TimeoutError(f"the network was not ready within {READY_S:g} s: {missing}. See tor.log in {folder}/*.")
        time.sleep(_POLL_S)


def what_is_missing(gate: Path) -> str:
    """Return what the Tor for clients still lacks; "" if nothing."""
    try:
        phase = "".join(_answers(gate, "GETINFO status/bootstrap-phase", until="bootstrap-phase="))
        if "PROGRESS=100" not in phase:
            return phase.strip() or "it does not answer yet"
        listed = "".join(_answers(gate, "GETINFO ns/all", until="250 OK"))
        unknown = {node.name for node in nodes()} - set(re.findall(r"^r (\S+) ", listed, re.MULTILINE))
        if unknown:
            return f"not in the consensus yet: {', '.join(sorted(unknown))}"
        answered = _answers(gate, "SETEVENTS ADDRMAP", f"RESOLVE {READY_NAME}", until="650 ADDRMAP")[-1]
    except (OSError, IndexError) as error:
        return f"it does not answer: {error}"
    return "" if WEB_GATEWAY in answered else f"no exit resolved {READY_NAME}: {answered.strip()}"


def _answers(gate: Path, *commands: str, until: str) -> list[str]:
    """Send commands to the control socket of a Tor, and return its lines up to the first that contains `until`."""
    cookie = (gate / "cookie").read_bytes().hex()
    lines: list[str] = []
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(_ANSWER_S)
        control.connect(str(gate / "control"))
        control.sendall("".join(f"{each}\r\n" for each in (f"AUTHENTICATE {cookie}", *commands)).encode())
        with control.makefile("r", encoding="utf-8", errors="replace", newline="\n") as replies:
            next(replies, "")  # of AUTHENTICATE
            for line in replies:
                lines.append(line)
                if until in line:
                    break
    return lines
