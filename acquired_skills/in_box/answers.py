"""In the box of the skill alone: its answers, and those of its mutants, to calls as data (SKILL-6, SKILL-7).

No tests, no pytest and no recorder are here. The process that hands the answers on never imports the skill; each
version of it (as it is, the calls in order and backwards; and each mutant) has a fork of its own.
"""

import ast
import importlib
import json
import os
import random
import select
import signal
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acquired_skills.in_box.asking import keep_only, performed
from acquired_skills.in_box.mutants import mutants

HERE = Path(__file__).resolve().parents[2]  # the job's folder
OWN = HERE / "own"
SHORTEST_S = 0.25
SLOWER = 10  # a mutant may take so many times as long as the skill itself
ENDED = {"ended": True}


def answers(
    name: str, calls: Sequence[Mapping[str, Any]], *, seconds: float, mutants_s: float, most: int, seed: int
) -> dict[str, Any]:
    """What the skill answers to the calls: ``forth`` in their order, ``again`` when that process is asked once more,
    ``back`` when another is asked the other way round.

    seconds: for each of these. mutants_s: for all of the mutants together. most: mutants to make, the choice of `seed`.
    With some, ``mutants`` tells of each only the answers that are others than `forth`, by the number of the call; None
    for one that cannot be imported. Those for which there was no time are left out at the end.
    """
    sys.dont_write_bytecode = True
    OWN.mkdir(exist_ok=True)
    os.chdir(OWN)
    sys.path[:] = [str(HERE / "skill"), *(path for path in sys.path if path not in (str(HERE), ""))]
    began = time.monotonic()
    twice = calls if most else [*calls, *calls]
    forth = _in_fork(lambda: _as_it_is(name), twice, seconds) or [dict(ENDED)] * len(twice)
    usual = time.monotonic() - began
    if not most:
        back = _in_fork(lambda: _as_it_is(name), calls[::-1], seconds) or forth[: len(calls)]
        return {"forth": forth[: len(calls)], "again": forth[len(calls) :], "back": back[::-1]}
    path = HERE / "skill" / f"{name}.py"
    tree = ast.parse(path.read_bytes())
    found: list[dict[str, Any] | None] = []
    began, patience = time.monotonic(), max(SHORTEST_S, usual * SLOWER)
    for mutant in mutants(tree, most, seed):
        left = began + mutants_s - time.monotonic()
        if left <= 0:
            break

        def changed(make: Callable[[], None] = mutant.make) -> types.ModuleType:
            make()
            return _changed(name, path, tree)

        got = _in_fork(changed, calls, min(patience, left))
        found.append(None if got is None else {str(i): one for i, one in enumerate(got) if one != forth[i]})
    return {"forth": forth, "mutants": found}


def _as_it_is(name: str) -> types.ModuleType:
    return importlib.import_module(name)


def _changed(name: str, path: Path, tree: ast.Module) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(tree, str(path), "exec"), vars(module))  # noqa: S102 -- the skill's own file, in its box
    return module


def _in_fork(
    load: Callable[[], types.ModuleType], calls: Sequence[Mapping[str, Any]], seconds: float
) -> list[dict[str, Any]] | None:
    """An answer for each call; `ENDED` for those that none came for. None when it could not be imported."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        keep_only(sink)
        try:
            _answer(load(), calls, sink)
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
        pass  # something else was written there: what is left is lost
    finally:
        os.close(source)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not found:
        return None
    return [*found[1:], *[dict(ENDED)] * len(calls)][: len(calls)]


def _answer(module: types.ModuleType, calls: Sequence[Mapping[str, Any]], sink: int) -> None:
    function = getattr(module, module.__name__)
    random.seed()  # forks share their parent's state, so that chance would look like none
    _send(sink, {})  # it is imported
    for call in calls:
        _send(sink, performed(function, call, module, OWN))


def _send(sink: int, message: Mapping[str, Any]) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(sink, data) :]
