"""Where programs in a box find their end of a bridge: an address, and clients for Python, Node and shells.

Standard library only.
"""

import os
import py_compile
from collections.abc import Mapping

from sandbox import worker

# Not 127.0.0.1, where a job's own servers listen, and above the ports that Linux assigns automatically.
ADDRESS, PORT = "127.0.3.1", 61010
_FOLDER = worker.CLIENTS
# Node looks for modules in the `node_modules` of every folder above a program, so this one is found from anywhere.
_CLIENTS = {
    "knackbox.py": (f"{_FOLDER}/knackbox.py", 0o444),
    "knackbox_world.py": (f"{_FOLDER}/knackbox_world.py", 0o444),
    "knackbox_clock.py": (f"{_FOLDER}/knackbox_clock.py", 0o444),
    "knackbox_call.py": (f"{_FOLDER}/bin/knackbox-call", 0o555),
    "knackbox.mjs": ("/node_modules/knackbox/index.mjs", 0o444),
    "package.json": ("/node_modules/knackbox/package.json", 0o444),
}


def read_clients() -> dict[str, bytes]:
    """Return the sources of the clients by name."""
    folder = os.path.join(os.path.dirname(__file__), "in_box")
    clients = {}
    for name in _CLIENTS:
        with open(os.path.join(folder, name), "rb") as source:
            clients[name] = source.read()
    return clients


def install(clients: Mapping[str, bytes], root: str) -> None:
    """Write the clients below `root`, the future root folder of boxes, with the compiled code of the Python client."""
    for name, text in clients.items():
        path, mode = _CLIENTS[name]
        target = root + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as out:
            out.write(text)
        os.chmod(target, mode)
    never = py_compile.PycInvalidationMode.UNCHECKED_HASH  # the files cannot change, and a check would read them
    for name in ("knackbox.py", "knackbox_world.py", "knackbox_clock.py"):
        path = _CLIENTS[name][0]
        py_compile.compile(root + path, dfile=path, invalidation_mode=never)


def environment(search_path: tuple[str, ...], packages: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of a job with a bridge, for a box with this PATH and these packages."""
    return {
        "KNACKBOX_BRIDGE": f"{ADDRESS}:{PORT}",
        "PATH": ":".join((*search_path, f"{_FOLDER}/bin")),
        "PYTHONPATH": ":".join((*packages, _FOLDER)),
    }
