"""Represents a call of a skill and the skill's answer as data (SKILL-7). Runs in the box.

A call has ``arguments`` and ``named`` (keyword arguments), both packed, the ``files`` in the working folder, and
``place``, the subfolder in which it was made, if any. If the skill declares tools, it has ``tools``, what they answer.

An answer has ``value`` or ``raised`` or, if neither can be packed, ``lost`` with the reason. It may also have
``itself`` (which argument was returned as the value), ``after`` (all arguments after the call, if it changed any),
``printed``, ``files`` (all files after the call, if it changed any), and ``called`` (the calls of tools that it made).

Instances of the skill's classes in the arguments are numbered in the order in which they are packed. ``after`` and
``value`` refer to them by these numbers (`acquired_skills.in_box.packing`).
"""

import contextlib
import io
import json
import os
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_files import TooManyFiles, read_files, write_files
from acquired_skills.in_box.packing import NotPackable, Packer, packed_exception
from acquired_skills.in_box.recorded_tools import RecordedTools
from acquired_skills.in_box.unpacking import Unpacker

MOST_CHARS = 131_072  # maximum number of characters of one call or one answer as JSON
MOST_PRINTED = 8_192


def keep_only(sink: int) -> None:
    """Close every file descriptor of this process except `sink` and the standard streams.

    Code that runs in the process later can then write to no other descriptor.
    """
    os.closerange(3, sink)
    os.closerange(sink + 1, 1 << 12)


def call_as_data(
    arguments: tuple[Any, ...], named: Mapping[str, Any], module: str, folder: Path
) -> tuple[dict[str, Any] | None, list[Any]]:
    """Return the call as data and the instances in its arguments, by number.

    The data is None if the call cannot be packed.
    """
    packer = Packer(module)
    try:
        call: dict[str, Any] = _pack_arguments(packer, arguments, named)
        around = read_files(folder)
        place = str(Path.cwd().relative_to(folder))
    except (NotPackable, TooManyFiles, OSError):
        return None, []
    except Exception:  # noqa: BLE001 -- an argument's own code may raise anything
        return None, []
    if around:
        call["files"] = around
    if place != ".":
        call["place"] = place
    return (call if len(call_key(call)) <= MOST_CHARS else None), packer.objects


def call_key(call: Mapping[str, Any]) -> str:
    """Return a canonical text of a call. Equal calls have equal keys."""
    return json.dumps(call, sort_keys=True)


class CallEffects:
    """The changes that a call made to its arguments, determined after the call.

    Attributes:
        after: The arguments as data, if the call changed any.
    """

    def __init__(
        self,
        call: Mapping[str, Any],
        objects: Sequence[Any],
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        module: str,
    ) -> None:
        """Compare the arguments with their state before the call.

        Args:
            call, objects: The results of `call_as_data` before the call.

        Raises:
            NotPackable: A changed argument cannot be packed.
        """
        self.after: list[Any] | None = None
        found = _pack_arguments(Packer(module), arguments, named)
        changed = found["arguments"] != call["arguments"] or found["named"] != call["named"]
        self._packer = Packer(module, objects, unchanged=not changed)
        if changed:
            self.after = [*_pack_arguments(self._packer, arguments, named).values()]

    def value_as_answer(self, value: Any) -> dict[str, Any]:
        """Return a returned value as an answer."""
        try:
            answer: dict[str, Any] = {"value": self._packer.pack(value)}
            return answer if len(json.dumps(answer)) <= MOST_CHARS else {"lost": "the answer is too large"}
        except NotPackable as problem:
            return {"lost": f"the call returned {problem}"}
        except Exception as problem:  # noqa: BLE001 -- the value's own code may raise anything
            return {"lost": f"the call returned a value that raises {type(problem).__name__} when inspected"}


def perform_call(  # noqa: C901 -- one branch per part of an answer
    function: Callable[..., Any],
    call: Mapping[str, Any],
    module: types.ModuleType,
    folder: Path,
    tools: RecordedTools | None = None,
) -> Any:
    """Make the call with the same files and answers of tools as when it was recorded, and return its answer."""
    name = module.__name__
    unpacker = Unpacker(module)
    try:
        arguments = unpacker.unpack(call["arguments"])
        named = {key: unpacker.unpack(each) for key, each in call["named"].items()}
    except Exception as problem:  # noqa: BLE001 -- the engine varies calls, and not every variation can be restored
        return {"lost": f"the arguments of the call cannot be restored ({type(problem).__name__})"}
    if folder.exists() and (call.get("files") or any(folder.iterdir())):
        write_files(folder, call.get("files", {}))
    os.chdir(folder / call.get("place", "."))
    out, value, raised = io.StringIO(), None, None
    if tools is not None:
        tools.begin(call.get("tools", ()))
    try:
        with contextlib.redirect_stdout(out):
            value = function(*arguments, **named)
    except BaseException as problem:  # noqa: BLE001 -- any exception is an answer
        raised = {"raised": packed_exception(problem, name)}
    try:
        effects = CallEffects(call, unpacker.objects, arguments, named, name)
        answer: dict[str, Any] = effects.value_as_answer(value) if raised is None else raised
        itself = [*(i for i, each in enumerate(arguments) if each is value), *(n for n in named if named[n] is value)]
        if itself and isinstance(value, list | dict | set | bytearray):
            answer["itself"] = itself[0]
        if effects.after is not None:
            answer["after"] = effects.after
        around = read_files(folder)
        if around != call.get("files", {}):
            answer["files"] = around
    except Exception as problem:  # noqa: BLE001 -- likewise
        return {"lost": f"the changes that the call made cannot be packed ({type(problem).__name__})"}
    if tools is not None and tools.made:
        answer["called"] = tools.made
    if out.getvalue():
        answer["printed"] = out.getvalue()[:MOST_PRINTED]
    return answer


def _pack_arguments(packer: Packer, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "arguments": packer.pack(list(arguments)),
        "named": {name: packer.pack(named[name]) for name in sorted(named)},
    }
