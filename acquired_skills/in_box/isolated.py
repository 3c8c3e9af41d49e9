"""Collects the answers of one program to calls, as data, in the box in which the program runs (SKILL-6, SKILL-7).

The program is the skill or a mutant of it. Nothing in the box reveals which one it is: the boxes of two programs differ
only in the program's file. The boxes contain neither tests nor pytest.

Usually one process loads the program and returns its answers. If the program ends or hangs that process, the engine
asks again for the program to run `apart`. Then another process, which never loads the program, collects its answers, so
those given before are kept.
"""

import atexit
import contextlib
import json
import math
import os
import random
import select
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_data import keep_only, perform_call
from acquired_skills.in_box.fixed_clock import FixedClock
from acquired_skills.in_box.function_forms import EagerFunction
from acquired_skills.in_box.recorded_tools import RecordedTools

ENDED = {"ended": True}


class CallTimeout(BaseException):
    """A call exceeded its own time limit or that of all calls together."""


def answers(
    name: str,
    calls: Sequence[Mapping[str, Any]],
    *,
    seconds: float,
    each_s: float,
    tools: Sequence[str] = (),
    apart: bool = False,
) -> dict[str, Any]:
    """Make calls to a program and return its answers.

    Args:
        seconds: Time limit in seconds for loading the program and all calls.
        each_s: Time limit in seconds for each call, after which `CallTimeout` is raised in it; 0 for none.
        tools: The names of the tools that the program declares. They answer from the recording of each call.
        apart: Whether to run the program in a process of its own, which takes a few milliseconds more.

    Returns:
        ``answers``: one answer for each call, which is `ENDED` if the program gave none; None if the program cannot be
        loaded. ``seconds``: the wall time of all this. A program can forge it, so the engine measures it again.
    """
    sys.dont_write_bytecode = True
    here = Path.cwd()  # the job's folder
    own = here / "own"
    own.mkdir(exist_ok=True)
    os.chdir(own)
    sys.path[:] = [str(here / "skill"), *(path for path in sys.path if path not in (str(here), ""))]
    began, run = time.monotonic(), _in_fork if apart else _in_this_process
    found = run(here / "skill" / f"{name}.py", calls, seconds, each_s, tools)
    return {"answers": found, "seconds": time.monotonic() - began}


def _in_this_process(
    path: Path, calls: Sequence[Mapping[str, Any]], seconds: float, each_s: float, declared: Sequence[str]
) -> list[dict[str, Any]] | None:
    now, found = time.monotonic, list[str]()  # the function, because the program may replace it
    deadline = now() + seconds

    def keep(answer: Mapping[str, Any]) -> None:
        found.append(json.dumps(ENDED if now() >= deadline else answer))  # as text: later calls may change the objects

    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with contextlib.suppress(BaseException):  # whatever the program raises while it is loaded
        _answer(path, calls, keep, each_s, declared, lambda: deadline - now())
    signal.setitimer(signal.ITIMER_REAL, 0)
    # This process runs nothing else, so it waits neither for the program's threads nor for its exit handlers.
    threading._shutdown = lambda: None  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._clear()  # noqa: SLF001
    return _complete([json.loads(each) for each in found], calls)


def _complete(found: list[dict[str, Any]], calls: Sequence[object]) -> list[dict[str, Any]] | None:
    """Return one answer for each call. The first message only reports that the program is loaded."""
    return [*found[1:], *[dict(ENDED)] * len(calls)][: len(calls)] if found else None


def _in_fork(
    path: Path, calls: Sequence[Mapping[str, Any]], seconds: float, each_s: float, declared: Sequence[str]
) -> list[dict[str, Any]] | None:
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        keep_only(sink)
        try:
            _answer(path, calls, partial(_send, sink), each_s, declared, lambda: math.inf)
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
    return _complete(found, calls)


def _answer(  # noqa: PLR0917 -- what `answers` got
    path: Path,
    calls: Sequence[Mapping[str, Any]],
    send: Callable[[Mapping[str, Any]], None],
    each_s: float,
    declared: Sequence[str],
    seconds_left: Callable[[], float],
) -> None:
    clock = FixedClock()
    if any("clock" in call for call in calls):
        clock.install()  # before the program imports functions of `time`
    tools = RecordedTools(declared) if declared else None
    if tools is not None:
        tools.install()
    own = Path.cwd()  # before the program can change it
    module = _loaded(path)
    function = EagerFunction(getattr(module, module.__name__))
    random.seed()  # all forks of a template start with the same random state
    send({})  # reports that the program is loaded
    for call in calls:
        left = seconds_left()
        if left <= 0:
            return
        limit = min(each_s or math.inf, left)
        signal.signal(signal.SIGALRM, _too_long)  # again, because the last call may have replaced it
        signal.setitimer(signal.ITIMER_REAL, limit if limit < math.inf else 0)
        try:
            if "clock" in call:
                clock.fix(call["clock"])
            answer = perform_call(function, call, module, own, tools)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except CallTimeout:  # raised outside the function, for instance while the value was packed
            answer = dict(ENDED)
        send(answer)


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
