"""In the box: a call and its outcome as data (SKILL-7).

A call has packed ``arguments`` and ``named``, the ``files`` around it, and the ``place`` it was made in if that is a
subfolder. An answer has ``value`` or ``raised``, or ``lost`` with the reason when neither can be packed; and, only when
present, ``itself`` (the argument that it returned), ``after`` (arguments that were changed), ``printed``, and ``files``
as they were then.
"""

import contextlib
import io
import json
import os
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_files import TooManyFiles, read_files, write_files
from acquired_skills.in_box.packing import NotPackable, packed, packed_exception, unpacked

MOST_CHARS = 131_072  # of one call or one answer, as JSON
MOST_PRINTED = 8_192


def keep_only(sink: int) -> None:
    """Close every descriptor of a process except this one and the standard ones, so that its code cannot write to
    others.
    """
    os.closerange(3, sink)
    os.closerange(sink + 1, 1 << 12)


def call_as_data(
    arguments: tuple[Any, ...], named: Mapping[str, Any], module: str, folder: Path
) -> dict[str, Any] | None:
    """Return the call as data; None when it cannot be packed."""
    try:
        call: dict[str, Any] = {
            "arguments": packed(list(arguments), module),
            "named": {name: packed(named[name], module) for name in sorted(named)},
        }
        around = read_files(folder)
        place = str(Path.cwd().relative_to(folder))
    except (NotPackable, TooManyFiles, OSError):
        return None
    except Exception:  # noqa: BLE001 -- an argument's own code may raise anything
        return None
    if around:
        call["files"] = around
    if place != ".":
        call["place"] = place
    return call if len(call_key(call)) <= MOST_CHARS else None


def call_key(call: Mapping[str, Any]) -> str:
    """Return a canonical text for a call: equal calls have equal keys."""
    return json.dumps(call, sort_keys=True)


def value_as_answer(value: Any, module: str) -> dict[str, Any]:
    """Return the answer for a returned value."""
    try:
        answer = {"value": packed(value, module)}
        return answer if len(json.dumps(answer)) <= MOST_CHARS else {"lost": "too much to send"}
    except NotPackable as problem:
        return {"lost": f"it returned {problem}"}
    except Exception as problem:  # noqa: BLE001 -- the value's own code may raise anything
        return {"lost": f"it returned a value that raises {type(problem).__name__} when inspected"}


def perform_call(function: Callable[..., Any], call: Mapping[str, Any], module: types.ModuleType, folder: Path) -> Any:
    """Make the call with the files it was made with, and return its answer."""
    name = module.__name__
    arguments, named = unpacked(call["arguments"], module), {k: unpacked(v, module) for k, v in call["named"].items()}
    if folder.exists() and (call.get("files") or any(folder.iterdir())):
        write_files(folder, call.get("files", {}))
    os.chdir(folder / call.get("place", "."))
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            value = function(*arguments, **named)
        answer = value_as_answer(value, name)
        itself = [*(i for i, each in enumerate(arguments) if each is value), *(n for n in named if named[n] is value)]
        if itself and isinstance(value, list | dict | set | bytearray):
            answer["itself"] = itself[0]
    except BaseException as problem:  # noqa: BLE001 -- any exception is an answer
        answer = {"raised": packed_exception(problem, name)}
    try:
        after = [packed(arguments, name), {key: packed(each, name) for key, each in named.items()}]
        if after != [call["arguments"], call["named"]]:
            answer["after"] = after
        around = read_files(folder)
        if around != call.get("files", {}):
            answer["files"] = around
    except Exception as problem:  # noqa: BLE001 -- likewise
        return {"lost": f"its changes cannot be packed ({type(problem).__name__})"}
    if out.getvalue():
        answer["printed"] = out.getvalue()[:MOST_PRINTED]
    return answer
