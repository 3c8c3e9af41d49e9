"""Makes calls to a skill that is a Node or Bash program, and collects its answers as data.

This module runs in a box. The box contains neither expected results nor tests.
"""

import contextlib
import json
import os
import shutil
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_files import apply_changes, read_files
from acquired_skills.in_box.packing import NotPackable, packed
from acquired_skills.in_box.program_callers import (
    HERE,
    MOST_TEXT,
    BashCaller,
    CannotLoad,
    NodeCaller,
    ProgramCaller,
    ProgramEnded,
)
from acquired_skills.in_box.unpacking import Unpacker

OWN = HERE / "own"
ENDED = {"ended": True}
MOST_NAME = 80


def answers(
    language: str,
    name: str,
    parameters: Sequence[str],
    text: bool,
    calls: Sequence[Mapping[str, Any]],
    *,
    seconds: float,
    each_s: float,
) -> dict[str, Any]:
    """Make calls to a program and return its answers as packed data.

    Each call runs in a folder that contains only the files of the call.

    Args:
        parameters: The names of the program's parameters, in order.
        text: Whether the result of a script is its output as text. If not, the output is parsed as JSON.
        seconds: Time limit for all calls.
        each_s: Time limit for each call; 0 for none.

    Returns:
        ``answers``: a list with one answer for each call, which is `ENDED` if the program gave no answer. If the
        program cannot be loaded, ``answers`` is None. ``seconds``: the wall time of the calls.
    """
    OWN.mkdir(exist_ok=True)
    began = time.monotonic()
    with _caller(language, name, parameters, text) as caller, _silent():
        found: list[dict[str, Any]] = []
        for call in calls:
            left = began + seconds - time.monotonic()
            try:
                found.append(_answer(caller, call, min(left, each_s) if each_s else left) if left > 0 else dict(ENDED))
            except CannotLoad:
                return {"answers": None, "seconds": time.monotonic() - began}
    return {"answers": found, "seconds": time.monotonic() - began}


def call(language: str, name: str, parameters: Sequence[str], text: bool, arguments: Mapping[str, Any]) -> Any:
    """Make one call in the working folder and return its value.

    Raises:
        RuntimeError: The program cannot be loaded, or ended without a result.
        Exception: The program raised an exception. The Python exception has a type of the same name.
    """
    with _caller(language, name, parameters, text) as caller:
        try:
            answer = caller.answer(arguments, Path.cwd(), None)
        except CannotLoad as problem:
            raise RuntimeError(f"the program cannot be loaded: {problem}") from None
        except ProgramEnded:
            raise RuntimeError("the program ended its process before it gave a result") from None
    if "raised" in answer:
        raise type(_types(answer)[0], (Exception,), {})(str(answer.get("text", ""))[:MOST_TEXT])
    return answer.get("value")


@contextlib.contextmanager
def _caller(language: str, name: str, parameters: Sequence[str], text: bool) -> Iterator[ProgramCaller]:
    made: ProgramCaller
    if language == "node":
        made = NodeCaller(HERE / "skill" / f"{name}.mjs", parameters)
    else:
        made = BashCaller(HERE / "skill" / f"{name}.sh", parameters, text=text)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Discard the output of programs, so that they cannot exceed the output limit of the box."""
    null = os.open(os.devnull, os.O_WRONLY)
    kept = [os.dup(1), os.dup(2)]
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        yield
    finally:
        for descriptor, each in enumerate(kept, 1):
            os.dup2(each, descriptor)
            os.close(each)
        os.close(null)


def _answer(caller: ProgramCaller, call: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    unpacker, module = Unpacker(types.ModuleType(caller.path.stem)), caller.path.stem
    try:
        arguments = {name: unpacker.unpack(each) for name, each in call["named"].items()}
        json.dumps(arguments, allow_nan=False)
    except Exception as problem:  # noqa: BLE001 -- the engine varies calls, and not every variation can be restored
        return {"lost": f"the arguments of the call cannot be restored ({type(problem).__name__})"}
    before = call.get("files", {})
    _empty(OWN)
    apply_changes(OWN, {}, before)
    try:
        found = caller.answer(arguments, OWN, seconds)
    except ProgramEnded:
        return dict(ENDED)
    if "raised" in found:
        types_ = [f"program:{each}" for each in _types(found)]
        answer: dict[str, Any] = {
            "raised": {"types": types_, "args": [], "text": str(found.get("text", ""))[:MOST_TEXT]}
        }
    else:
        try:
            answer = {"value": packed(found.get("value"), module)}
        except NotPackable as problem:
            return {"lost": f"it returned {problem}"}
    try:
        after = read_files(OWN)
    except Exception as problem:  # noqa: BLE001 -- too many files, or files that cannot be read
        return {"lost": f"the files that the call left cannot be packed ({type(problem).__name__})"}
    return answer if after == before else {**answer, "files": after}


def _types(answer: Mapping[str, Any]) -> list[str]:
    """Return the names of an exception's type and of its base classes, as the program reported them."""
    named = answer["raised"] if isinstance(answer["raised"], list) else []
    found = [name for name in map(str, named) if name.isidentifier() and len(name) <= MOST_NAME]
    return list(dict.fromkeys(found))[:8] or ["Thrown"]


def _empty(folder: Path) -> None:
    """Remove everything in a folder, but not the folder itself, because a process uses it as its working folder."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
