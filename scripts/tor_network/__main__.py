"""Starts and stops a private Tor network in network namespaces, for tests (root, Debian's tor, nftables, iproute2).

    python scripts/tor_network start FOLDER    # prints what tests need as JSON, when the network is ready
    python scripts/tor_network restart FOLDER  # starts the Tor for clients again after it was ended
    python scripts/tor_network stop FOLDER     # ends all its processes and removes its namespaces

FOLDER must not exist or be empty. No packet leaves the machine.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from namespaces import CLIENT, GATE, RESOLVER, SOCKS_PORT, TOR, WEB, WEB_ADDRESSES, Namespaces
from nodes import GATE_NODE, TorNodes, nodes
from readiness import first_names, wait_for

_STOP_S = 10.0
_POLL_S = 0.1


def start(folder: Path) -> dict[str, object]:
    """Start the network and wait until its Tor can be used. Return what tests need."""
    started = time.monotonic()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    namespaces = namespaces_of(folder)
    namespaces.create(tuple(node.address for node in nodes()))
    try:
        names, resolv = folder / "names.json", folder / "resolv.conf"
        names.write_text(first_names())
        resolv.write_text(f"nameserver {RESOLVER}\n")
        resolver = [sys.executable, str(Path(__file__).with_name("resolver.py")), RESOLVER, str(names)]
        nothing = subprocess.DEVNULL
        command = namespaces.inside(WEB, *resolver)
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
        tor_nodes = TorNodes(folder, namespaces, resolv)
        client = tor_nodes.write()
        processes = tor_nodes.start()
        wait_for(folder)
    except BaseException:
        stop(folder)
        raise
    return {
        "prefix": namespaces.prefix,
        "socks": f"{GATE}:{SOCKS_PORT}",
        "client_config": str(client),
        "names": str(names),
        "web_addresses": WEB_ADDRESSES,
        "gate": str(folder / GATE_NODE),
        "exits": [str(folder / node.name) for node in nodes() if node.kind == "exit"],
        "processes": processes,
        "ready_s": round(time.monotonic() - started, 1),
    }


def restart(folder: Path) -> dict[str, object]:
    """Start the Tor for clients again, and wait until it can be used. Return its process id."""
    (folder / GATE_NODE / "cookie").unlink(missing_ok=True)  # it makes a new one, which must be waited for
    processes = TorNodes(folder, namespaces_of(folder), folder / "resolv.conf").start(GATE_NODE)
    wait_for(folder)
    return {"processes": processes}


def stop(folder: Path) -> None:
    """End all processes in the namespaces of the network, and remove these."""
    namespaces = namespaces_of(folder)
    deadline = time.monotonic() + _STOP_S
    while running := [pid for of in (CLIENT, TOR, WEB) for pid in namespaces.processes(of)]:
        number = signal.SIGTERM if time.monotonic() < deadline - _STOP_S / 2 else signal.SIGKILL
        for pid in running:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        if time.monotonic() >= deadline:
            raise RuntimeError(f"these processes did not end: {running}")
        time.sleep(_POLL_S)
    namespaces.remove()


def namespaces_of(folder: Path) -> Namespaces:
    """Return the namespaces of the network in a folder. Networks in different folders do not share any."""
    return Namespaces(f"kbtor-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}")


def main(arguments: list[str]) -> int:
    """Run a command. Return the exit status."""
    commands = {"start": start, "restart": restart, "stop": stop}
    if len(arguments) != 2 or arguments[0] not in commands:  # noqa: PLR2004 -- a command and a folder
        sys.stderr.write(f"{__doc__}\n")
        return 2
    found = commands[arguments[0]](Path(arguments[1]).absolute())
    if found is not None:
        sys.stdout.write(f"{json.dumps(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
