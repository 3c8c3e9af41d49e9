"""In a box: how solutions of a problem do on its asserts and its probe inputs. Of the standard library alone."""

import copy
import json
import os
import select
import signal
from typing import Any

_SECONDS = 3.0


def examine(problem: dict[str, Any], sources: list[str]) -> list[dict[str, Any]]:
    """Of each source ``asserts`` (whether each holds), ``answers`` (to the probe inputs, as texts) and ``json``."""
    return [_in_fork(problem, source) for source in sources]


def _in_fork(problem: dict[str, Any], source: str) -> dict[str, Any]:
    """In a fork, since a mutant may hang, and may change what it shares with the next."""
    taken, given = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(taken)
        try:
            with os.fdopen(given, "w") as sink:
                json.dump(_examined(problem, source), sink)
        finally:
            os._exit(0)
    os.close(given)
    data = b""
    while select.select([taken], [], [], _SECONDS)[0]:
        more = os.read(taken, 1 << 16)
        if not more:
            break
        data += more
    os.close(taken)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        found: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"asserts": [False] * len(problem["tests"]), "answers": ["no answer"], "json": False}
    return found


def _examined(problem: dict[str, Any], source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join(problem["test_imports"]), names)
    exec(source, names)
    function = names[problem["entry_point"]]
    answers, sendable = [], True
    for given in problem["probe_inputs"]:
        arguments = [_tuples(each) if problem["tuples"] else each for each in copy.deepcopy(given)]
        try:
            value = function(*arguments)
            sendable = sendable and _sendable(value)
            answers.append(repr(_rounded(value)))
        except Exception as problem_:  # noqa: BLE001 -- an answer like any other
            answers.append(type(problem_).__name__)
    return {"asserts": [_holds(line, names) for line in problem["tests"]], "answers": answers, "json": sendable}


def _holds(line: str, names: dict[str, Any]) -> bool:
    try:
        exec(line, names)
    except Exception:  # noqa: BLE001
        return False
    return True


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _rounded(value: Any) -> Any:
    """So that the last digits of a float do not make a difference."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list | tuple):
        return type(value)(map(_rounded, value)) if type(value) in (list, tuple) else value
    return value


def _sendable(value: Any) -> bool:
    """Whether JSON holds it, sets and tuples included, as a skill's answer may be."""
    try:
        json.dumps(value, default=lambda each: list(each) if isinstance(each, set | frozenset) else _refuse())
    except (TypeError, ValueError):
        return False
    return True


def _refuse() -> None:
    raise TypeError
