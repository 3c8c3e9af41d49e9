"""In the box of one program: its answers to calls, as data (SKILL-6, SKILL-7).

The program is the skill, or a mutant of it. Nothing in the box says which: two of these boxes only differ in the
program's file. There are no tests and no pytest here.

One process loads and runs the program. Another, which never loads it, forwards its answers, so that none are lost when
the program ends its process or hangs.
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

from acquired_skills.in_box.call_data import keep_only, perform_call

HERE = Path(__file__).resolve().parents[2]  # the job's folder
OWN = HERE / "own"
ENDED = {"ended": True}


class CallTimeout(BaseException):
    """A call exceeded its time limit."""


def answers(name: str, calls: Sequence[Mapping[str, Any]], *, seconds: float, each_s: float) -> dict[str, Any]:
    """Run a program on calls.

    Args:
        seconds: time limit for all calls.
        each_s: time limit for each call, after which `CallTimeout` is raised in it; 0 for none.

    Returns:
        ``answers``: one for each call, `ENDED` for a call without one; None when the program cannot be loaded.
        ``seconds``: the wall time they took.
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
        pass  # the program wrote to the pipe itself; the rest is lost
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
            answer = perform_call(function, call, module, OWN)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except CallTimeout:  # raised while the value was packed
            answer = dict(ENDED)
        _send(sink, answer)


def _loaded(path: Path) -> types.ModuleType:
    """Load the program as a module, in the way a call loads a skill (`sandbox.worker`)."""
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, vars(module))  # noqa: S102 -- the program's own file, in its box
    return module


def _too_long(*_: Any) -> None:
    raise CallTimeout


def _send(sink: int, message: Mapping[str, Any]) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(sink, data) :]
