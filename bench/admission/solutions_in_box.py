"""Runs solutions of a problem on its asserts, probe inputs and other calls, in a box. Imports nothing of Knackbox."""

import ast
import copy
import json
import os
import select
import signal
from collections.abc import Callable
from typing import Any

_SECONDS = 3.0
_INFINITE = {"inf": "1e999", "-inf": "-1e999"}  # as source text


def examine(problem: dict[str, Any], sources: list[str]) -> list[dict[str, Any]]:
    """Run each source in a process of its own.

    Returns:
        For each source: ``asserts``, whether each holds; ``answers``, the results for the probe inputs as text; and
        ``json``, whether JSON can represent all results.
    """
    otherwise = {"asserts": [False] * len(problem["tests"]), "answers": ["no answer"], "json": False}
    return [_in_fork(lambda source=source: _run(problem, source), otherwise) for source in sources]  # type: ignore[misc]


def answer(imports: list[str], source: str, calls: list[str]) -> list[dict[str, str] | None]:
    """Evaluate each call, given as source text, with the names that the source defines.

    Returns:
        For each call ``{"value": text}``, with the value as source text, or ``{"raised": type}``; None if there is no
        answer, or none that can be written as source text.
    """
    return [_in_fork(lambda call=call: _evaluate(imports, source, call), None) for call in calls]  # type: ignore[misc]


def _evaluate(imports: list[str], source: str, call: str) -> dict[str, str] | None:
    names: dict[str, Any] = {"nan": float("nan"), "inf": float("inf")}
    exec("\n".join(imports), names)
    exec(source, names)
    try:
        result = repr(eval(call, names))
    except Exception as error:  # noqa: BLE001 -- an exception is an answer, too
        return {"raised": type(error).__name__}
    text = _INFINITE.get(result, result)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"value": text} if text == "set()" else None
    return {"value": text}


def _in_fork(work: Callable[[], Any], otherwise: Any) -> Any:
    """Return what `work` returns in a forked process, because a mutant may hang or change shared state.

    Args:
        otherwise: Returned if it takes too long or ends the process.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "w") as sink:
                json.dump(work(), sink)
        finally:
            os._exit(0)
    os.close(writing)
    data = b""
    while select.select([reading], [], [], _SECONDS)[0]:
        more = os.read(reading, 1 << 16)
        if not more:
            break
        data += more
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        return json.loads(data)
    except ValueError:
        return otherwise


def _run(problem: dict[str, Any], source: str) -> dict[str, Any]:
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
        except Exception as error:  # noqa: BLE001 -- an exception is an answer, too
            answers.append(type(error).__name__)
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
    """Round floats, so that differences in the last digits are ignored."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list | tuple):
        return type(value)(map(_rounded, value)) if type(value) in (list, tuple) else value
    return value


def _sendable(value: Any) -> bool:
    """Return whether a skill may return the value: JSON can represent it, if sets and tuples become lists."""
    try:
        json.dumps(value, default=lambda each: list(each) if isinstance(each, set | frozenset) else _refuse())
    except (TypeError, ValueError):
        return False
    return True


def _refuse() -> None:
    raise TypeError
