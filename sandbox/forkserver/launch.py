"""Starts the supervisor of a template. The supervisor is a process that then starts the template itself."""

import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import worker
from sandbox.forkserver import orders

_SOURCE = str(Path(__file__).parents[2])
# The command line is visible in every box, so it must not reveal anything about the host: everything else is sent over
# the socket. For the same reason the code of these modules does not name the files it was compiled from: a job can
# inspect its stack.
_BOOTSTRAP = f"""
import site, sys
sys.path[:] = [path for path in sys.path if path and path not in site.getsitepackages()]
import _imp, importlib, importlib.machinery, json, socket
ours, theirs = (socket.socket(fileno=int(n)) for n in sys.argv[1:])
for each in (ours, theirs):
    each.set_inheritable(False)
wanted = json.loads(ours.recv(1 << 16))
class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        code = super().get_code(name)
        _imp._fix_co_filename(code, {worker.OWN_FILES!r} + name)
        return code
class Finder:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "sandbox":
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec:
                spec.loader = Loader(name, spec.origin)
            return spec
try:
    sys.meta_path.insert(0, Finder)
    sys.path.insert(0, wanted["source"])
    supervisor = importlib.import_module(wanted["supervisor"])
    sys.meta_path.remove(Finder)
    del sys.path[0]
    supervisor.main(ours, theirs, wanted)
except Exception as problem:
    ours.send(json.dumps(dict(op="broken", error=f"{{type(problem).__name__}}: {{problem}}")).encode())
"""
# Boxes are forks of this interpreter, so it starts as the interpreter of a job would: without -I and -S, which would
# show in `sys.flags` and be passed on to child processes. Its path is still minimal: it has no user site, because the
# interpreter gets neither the caller's variables nor a home, and no packages except those of the box.
_AS_JOBS_EXPECT = {"HOME": "/nonexistent", "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Program:
    """The program to start as a supervisor.

    Attributes:
        python: The interpreter.
        supervisor: A module whose `main` takes the supervisor's socket, the template's socket, and the template's
            config as a dict.
        environment: Environment variables in addition to the few that every supervisor gets.
    """

    python: str
    supervisor: str
    environment: Mapping[str, str]


def launch(program: Program, config: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], socket.socket, socket.socket]:
    """Start the supervisor.

    Returns:
        The supervisor's process, the engine's end of the supervisor's socket, and the engine's end of the template's
        socket.

    Raises:
        OSError: The process cannot be started.
    """
    template, template_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    supervisor, supervisor_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    given = (supervisor_there.fileno(), template_there.fileno())
    # asyncio is not used, because its child watchers would have to outlive the loop.
    process = subprocess.Popen(
        [program.python, "-c", _BOOTSTRAP, *map(str, given)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=given,
        env={**_AS_JOBS_EXPECT, **program.environment},
        cwd="/",
        start_new_session=True,
    )
    template_there.close()
    supervisor_there.close()
    orders.send(supervisor, {"source": _SOURCE, "supervisor": program.supervisor, **config})
    return process, supervisor, template
