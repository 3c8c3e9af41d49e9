"""In the box of one program: its answers to calls as data (SKILL-6, SKILL-7).

The program is the skill itself, or the skill with one place changed. Nothing in the box says which: its file is the
only thing in which two of these boxes differ. There are no tests and no pytest here.

One process loads and runs the program. Another, which never loads it, hands on what it answers, so that nothing is lost
when the program ends its process or never returns.
"""

import json
import os
import random
import select
import signal
import sys
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_data import keep_only, performed

HERE = Path(__file__).resolve().parents[2]  # the job's folder
OWN = HERE / "own"
ENDED = {"ended": True}


class TakesTooLong(BaseException):
    """A call takes longer than one call may take."""


def answers(name: str, calls: Sequence[Mapping[str, Any]], *, seconds: float, each_s: float) -> dict[str, Any]:
    """``answers``: one for each call, `ENDED` for a call without one; None when the program cannot be loaded.
    ``seconds``: wall time they took.

    seconds: for all calls. each_s: for each call, after which `TakesTooLong` is raised in it; 0 for no such limit.
    """
    sys.dont_write_bytecode = True
    OWN.mkdir(exist_ok=True)
    os.chdir(OWN)
    sys.path[:] = [str(HERE / "skill"), *(path for path in sys.path if path not in (str(HERE), ""))]
    began = time.monotonic()
    found = _in_fork(HERE / "skill" / f"{name}.py", calls, seconds, each_s)
    return {"answers": found, "seconds": time.monotonic() - began}


def _in_fork(
    path: Path, calls: Sequence[Mapping[str, Any]], seconds: float, each_s: float
) -> list[dict[str, Any]] | None:
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        keep_only(sink)
        try:
            _answer(path, calls, sink, each_s)
        finally:
            os._exit(0)
    os.close(sink)
    found: list[dict[str, Any]] = []
    pending, deadline = b"", time.monotonic() + seconds
    try:
        while select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
            data = os.read(source, 1 << 16)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            found += map(json.loads, lines)
    except ValueError:
        pass  # the program wrote there itself; what follows is lost
    finally:
        os.close(source)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not found:
        return None
    return [*found[1:], *[dict(ENDED)] * len(calls)][: len(calls)]


def _answer(path: Path, calls: Sequence[Mapping[str, Any]], sink: int, each_s: float) -> None:
    module = _loaded(path)
    function = getattr(module, module.__name__)
    random.seed()  # a template's forks share its random state
    _send(sink, {})  # the program is loaded
    signal.signal(signal.SIGALRM, _too_long)
    for call in calls:
        signal.setitimer(signal.ITIMER_REAL, each_s)
        try:
            answer = performed(function, call, module, OWN)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except TakesTooLong:  # while the answer was made of the value
            answer = dict(ENDED)
        _send(sink, answer)


def _loaded(path: Path) -> types.ModuleType:
    """The program as a module, loaded as an agent's call loads a skill (`sandbox.worker`)."""
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, vars(module))  # noqa: S102 -- the program's own file, in its box
    return module


def _too_long(*_: Any) -> None:
    raise TakesTooLong


def _send(sink: int, message: Mapping[str, Any]) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(sink, data) :]
