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
EACH_S = 0.1  # for one call that no test makes
SLOWER = 10  # a mutant may take so many times as long as the skill itself
ENDED = {"ended": True}


class TakesTooLong(BaseException):
    """A call that no test makes has no more time."""


def answers(
    name: str, calls: Sequence[Mapping[str, Any]], *, seconds: float, mutants_s: float, most: int, seed: int
) -> dict[str, Any]:
    """What the skill answers to the calls: ``forth`` in their order, ``again`` when that process is asked once more,
    ``back`` when another is asked the other way round.

    seconds: for each of these. mutants_s: for all of the mutants together. most: mutants to make, the choice of `seed`.
    With some, ``mutants`` tells of each only the answers that are others than `forth`, by the number of the call; None
    for one that cannot be imported. Those for which there was no time are left out at the end.
    """
    _prepare()
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


def nearby(
    name: str, calls: Sequence[Mapping[str, Any]], *, numbers: Sequence[int], most: int, seed: int, seconds: float
) -> dict[str, Any]:
    """What the skill answers to calls that its tests do not make, and what some mutants answer otherwise.

    ``forth`` and ``mutants`` as of `answers`, but mutants only those with these numbers, in this order. A call that the
    skill answers slowly, with an exception, or twice not alike has `ENDED` there, and is not made to the mutants.
    seconds: for all of it; mutants for which there was no time are left out at the end.
    """
    _prepare()
    began = time.monotonic()
    once, again = (
        _in_fork(lambda: _as_it_is(name), calls, seconds / 4, EACH_S) or [dict(ENDED)] * len(calls) for _ in range(2)
    )
    usual = time.monotonic() - began
    steady = [i for i, one in enumerate(once) if "value" in one and one == again[i]]
    forth = [one if i in steady else dict(ENDED) for i, one in enumerate(once)]
    path = HERE / "skill" / f"{name}.py"
    tree = ast.parse(path.read_bytes())
    made = mutants(tree, most, seed)
    found: list[dict[str, Any] | None] = []
    for number in numbers:
        left = began + seconds - time.monotonic()
        if left <= 0:
            break

        def changed(make: Callable[[], None] = made[number].make) -> types.ModuleType:
            make()
            return _changed(name, path, tree)

        got = _in_fork(changed, [calls[i] for i in steady], min(max(SHORTEST_S, usual * SLOWER), left), SLOWER * EACH_S)
        met = None if got is None else zip(steady, got, strict=True)
        found.append(None if met is None else {str(i): one for i, one in met if one != forth[i]})
    return {"forth": forth, "mutants": found}


def _prepare() -> None:
    sys.dont_write_bytecode = True
    OWN.mkdir(exist_ok=True)
    os.chdir(OWN)
    sys.path[:] = [str(HERE / "skill"), *(path for path in sys.path if path not in (str(HERE), ""))]


def _as_it_is(name: str) -> types.ModuleType:
    return importlib.import_module(name)


def _changed(name: str, path: Path, tree: ast.Module) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(tree, str(path), "exec"), vars(module))  # noqa: S102 -- the skill's own file, in its box
    return module


def _in_fork(
    load: Callable[[], types.ModuleType], calls: Sequence[Mapping[str, Any]], seconds: float, each_s: float = 0.0
) -> list[dict[str, Any]] | None:
    """An answer for each call; `ENDED` for those that none came for. None when it could not be imported.

    seconds: for all. each_s: for each, after which it raises `TakesTooLong`; 0 for no such limit.
    """
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        keep_only(sink)
        try:
            _answer(load(), calls, sink, each_s)
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


def _answer(module: types.ModuleType, calls: Sequence[Mapping[str, Any]], sink: int, each_s: float) -> None:
    function = getattr(module, module.__name__)
    random.seed()  # forks share their parent's state, so that chance would look like none
    _send(sink, {})  # it is imported
    signal.signal(signal.SIGALRM, _too_long)
    for call in calls:
        signal.setitimer(signal.ITIMER_REAL, each_s)
        try:
            answer = performed(function, call, module, OWN)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except TakesTooLong:  # while the answer was made of what it gave
            answer = dict(ENDED)
        _send(sink, answer)


def _too_long(*_: Any) -> None:
    raise TakesTooLong


def _send(sink: int, message: Mapping[str, Any]) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(sink, data) :]
