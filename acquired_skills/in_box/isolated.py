"""Collects the answers of one program to calls, as data, in the box in which the program runs (SKILL-6, SKILL-7).

The program is the skill or a mutant of it. Nothing in the box reveals which one it is: the boxes of two programs differ
only in the program's file. The boxes contain neither tests nor pytest.

One process loads and runs the program. Another process, which never loads the program, collects its answers, so the
answers collected before the program exits or hangs are kept.
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
from acquired_skills.in_box.fixed_clock import FixedClock
from acquired_skills.in_box.function_forms import EagerFunction
from acquired_skills.in_box.recorded_tools import RecordedTools

HERE = Path(__file__).resolve().parents[2]  # the job's folder
OWN = HERE / "own"
ENDED = {"ended": True}


class CallTimeout(BaseException):
    """A call exceeded its time limit."""


def answers(
    name: str, calls: Sequence[Mapping[str, Any]], *, seconds: float, each_s: float, tools: Sequence[str] = ()
) -> dict[str, Any]:
    """Make calls to a program and return its answers.

    Args:
        seconds: Time limit for all calls.
        each_s: Time limit for each call, after which `CallTimeout` is raised in it; 0 for none.
        tools: The names of the tools that the program declares. They answer from the recording of each call.

    Returns:
        ``answers``: one answer for each call, which is `ENDED` if the program gave none; None if the program cannot be
        loaded. ``seconds``: the wall time of the calls.
    """
    sys.dont_write_bytecode = True
    OWN.mkdir(exist_ok=True)
    os.chdir(OWN)
    sys.path[:] = [str(HERE / "skill"), *(path for path in sys.path if path not in (str(HERE), ""))]
    began = time.monotonic()
    found = _in_fork(HERE / "skill" / f"{name}.py", calls, seconds, each_s, tools)
    return {"answers": found, "seconds": time.monotonic() - began}


def _in_fork(
    path: Path, calls: Sequence[Mapping[str, Any]], seconds: float, each_s: float, declared: Sequence[str]
) -> list[dict[str, Any]] | None:
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        keep_only(sink)
        try:
            _answer(path, calls, sink, each_s, declared)
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
        pass  # the program itself wrote to the pipe, so the remaining answers are lost
    finally:
        os.close(source)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not found:
        return None
    return [*found[1:], *[dict(ENDED)] * len(calls)][: len(calls)]


def _answer(path: Path, calls: Sequence[Mapping[str, Any]], sink: int, each_s: float, declared: Sequence[str]) -> None:
    clock = FixedClock()
    if any("clock" in call for call in calls):
        clock.install()  # before the program imports functions of `time`
    tools = RecordedTools(declared) if declared else None
    if tools is not None:
        tools.install()
    module = _loaded(path)
    function = EagerFunction(getattr(module, module.__name__))
    random.seed()  # all forks of a template start with the same random state
    _send(sink, {})  # reports that the program is loaded
    signal.signal(signal.SIGALRM, _too_long)
    for call in calls:
        signal.setitimer(signal.ITIMER_REAL, each_s)
        try:
            if "clock" in call:
                clock.fix(call["clock"])
            answer = perform_call(function, call, module, OWN, tools)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except CallTimeout:  # raised outside the function, for instance while the value was packed
            answer = dict(ENDED)
        _send(sink, answer)


def _loaded(path: Path) -> types.ModuleType:
    """Load the program as a module, in the same way as an ordinary call loads a skill (`sandbox.worker`)."""
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
