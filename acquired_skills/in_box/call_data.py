"""In the box: one call as data, and what came of it as data (SKILL-7).

A call: ``arguments`` and ``named``, packed, ``files`` around it, and the ``place`` it was made in, if that is a folder
below. An answer: ``value`` or ``raised``, or ``lost`` and why, when neither can travel; and ``itself`` (the argument
that it gave back), ``after`` (arguments that were changed), ``printed``, and ``files`` as they were then, each only
when there is something to say.
"""

import contextlib
import io
import json
import os
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_files import TooMuch, put, seen
from acquired_skills.in_box.packing import NotPackable, packed, packed_exception, unpacked

MOST_CHARS = 131_072  # of one call, and of one answer, as JSON
MOST_PRINTED = 8_192


def keep_only(sink: int) -> None:
    """Leave a process no descriptor but the standard ones and this: what it runs is not to write to any other."""
    os.closerange(3, sink)
    os.closerange(sink + 1, 1 << 12)


def call_of(arguments: tuple[Any, ...], named: Mapping[str, Any], module: str, folder: Path) -> dict[str, Any] | None:
    """The call as data; None when it cannot travel."""
    try:
        call: dict[str, Any] = {
            "arguments": packed(list(arguments), module),
            "named": {name: packed(named[name], module) for name in sorted(named)},
        }
        around = seen(folder)
        place = str(Path.cwd().relative_to(folder))
    except (NotPackable, TooMuch, OSError):
        return None
    except Exception:  # noqa: BLE001 -- what a test passes may do anything
        return None
    if around:
        call["files"] = around
    if place != ".":
        call["place"] = place
    return call if len(key_of(call)) <= MOST_CHARS else None


def key_of(call: Mapping[str, Any]) -> str:
    """The same text for the same call."""
    return json.dumps(call, sort_keys=True)


def came_of(value: Any, module: str) -> dict[str, Any]:
    """The answer for a value."""
    try:
        answer = {"value": packed(value, module)}
        return answer if len(json.dumps(answer)) <= MOST_CHARS else {"lost": "too much to send"}
    except NotPackable as problem:
        return {"lost": f"it gave {problem}"}
    except Exception as problem:  # noqa: BLE001 -- what a skill gives may do anything
        return {"lost": f"it gave what raises {type(problem).__name__} when it is looked at"}


def performed(function: Callable[..., Any], call: Mapping[str, Any], module: types.ModuleType, folder: Path) -> Any:
    """Make the call, in the files it was made in, and give its answer."""
    name = module.__name__
    arguments, named = unpacked(call["arguments"], module), {k: unpacked(v, module) for k, v in call["named"].items()}
    if folder.exists() and (call.get("files") or any(folder.iterdir())):
        put(folder, call.get("files", {}))
    os.chdir(folder / call.get("place", "."))
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            value = function(*arguments, **named)
        answer = came_of(value, name)
        itself = [*(i for i, each in enumerate(arguments) if each is value), *(n for n in named if named[n] is value)]
        if itself and isinstance(value, list | dict | set | bytearray):
            answer["itself"] = itself[0]
    except BaseException as problem:  # noqa: BLE001 -- whatever it raises is its answer
        answer = {"raised": packed_exception(problem, name)}
    try:
        after = [packed(arguments, name), {key: packed(each, name) for key, each in named.items()}]
        if after != [call["arguments"], call["named"]]:
            answer["after"] = after
        around = seen(folder)
        if around != call.get("files", {}):
            answer["files"] = around
    except Exception as problem:  # noqa: BLE001 -- likewise
        return {"lost": f"what it changed cannot be told ({type(problem).__name__})"}
    if out.getvalue():
        answer["printed"] = out.getvalue()[:MOST_PRINTED]
    return answer
