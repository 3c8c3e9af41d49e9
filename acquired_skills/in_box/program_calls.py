"""In the box: calls a skill that is a Node or Bash program, and collects its answers as data.

A call has its arguments by name, as JSON. A Node function gets them in the order of its parameters. A Bash script gets
them as `$1`, `$2`, …, and the one named `stdin` on standard input; what it prints is the result.

The program runs in processes of its own, and neither expected results nor tests are in the box.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import types
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_files import apply_changes, read_files
from acquired_skills.in_box.node_driver import DRIVER
from acquired_skills.in_box.packing import NotPackable, packed
from acquired_skills.in_box.unpacking import Unpacker

HERE = Path(__file__).resolve().parents[2]  # the job's folder
OWN = HERE / "own"
ENDED = {"ended": True}
STDIN = "stdin"  # the parameter of a Bash script that is its standard input
MOST_OUTPUT = 1 << 20  # characters of one result
MOST_TEXT = 2_000  # characters of one error message
MOST_NAME = 80
_LOADING_S = 20.0


class ProgramEnded(Exception):
    """The program ended, or exceeded its time limit, before it gave an answer."""


class CannotLoad(Exception):
    """The program cannot be loaded."""


class ProgramCaller(ABC):
    """Makes the calls of one program.

    An answer has ``value``, or ``raised`` (the names of the type and its bases) with ``text``.
    """

    def __init__(self, path: Path, parameters: Sequence[str]) -> None:
        self.path = path
        self.parameters = parameters

    @abstractmethod
    def answer(self, arguments: Mapping[str, Any], folder: Path, seconds: float | None) -> dict[str, Any]:
        """Make one call in a folder. Raises ProgramEnded, CannotLoad."""

    def close(self) -> None:  # noqa: B027 -- optional
        """End its processes."""


class NodeCaller(ProgramCaller):
    """Calls the exported function of an ES module. All calls are made by one process, which is restarted if it ends."""

    _process: subprocess.Popen[bytes] | None = None
    _calls = _answers = -1

    def answer(self, arguments: Mapping[str, Any], folder: Path, seconds: float | None) -> dict[str, Any]:
        if self._process is None:
            self._start()
        listed = [[arguments[name]] if name in arguments else [] for name in self.parameters]
        while listed and not listed[-1]:
            listed.pop()
        try:
            _write(self._calls, json.dumps({"folder": str(folder), "arguments": listed}).encode() + b"\n")
            return self._read(seconds)
        except (OSError, ProgramEnded):
            self.close()
            raise ProgramEnded from None

    def _start(self) -> None:
        driver = HERE / "driver.mjs"
        driver.write_text(DRIVER)
        theirs, self._calls = os.pipe()
        self._answers, answers = os.pipe()
        name = self.path.stem
        first, *rest = name.split("_")
        names = (name, first + "".join(map(str.title, rest)))
        sinks = (str(theirs), str(answers))
        command = ["node", "--no-warnings", str(driver), *sinks, str(self.path), *names]

        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=(theirs, answers), start_new_session=True
            )
        finally:
            os.close(theirs)
            os.close(answers)
        try:
            found = self._read(_LOADING_S)
        except ProgramEnded:
            found = {"raised": ["Thrown"], "text": "it ended its process while it was loaded"}
        if "loaded" not in found:
            self.close()
            raise CannotLoad(str(found.get("text", ""))[:MOST_TEXT])

    def _read(self, seconds: float | None) -> dict[str, Any]:
        pending, deadline = bytearray(), None if seconds is None else time.monotonic() + seconds
        while not pending.endswith(b"\n"):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], left)[0]:
                raise ProgramEnded
            data = os.read(self._answers, 1 << 16)
            if not data or len(pending) > 4 * MOST_OUTPUT:
                raise ProgramEnded
            pending += data
        try:
            found = json.loads(pending)
        except (ValueError, RecursionError):
            raise ProgramEnded from None
        return found if isinstance(found, dict) else {}

    def close(self) -> None:
        if self._process is not None:
            _kill(self._process)
            os.close(self._calls)
            os.close(self._answers)
            self._process = None


class BashCaller(ProgramCaller):
    """Runs a Bash script, each call in a new process."""

    def __init__(self, path: Path, parameters: Sequence[str], *, text: bool) -> None:
        """text: whether the result is the text that the script prints, and not JSON."""
        super().__init__(path, parameters)
        self._text = text

    def answer(self, arguments: Mapping[str, Any], folder: Path, seconds: float | None) -> dict[str, Any]:
        names = [name for name in self.parameters if name != STDIN]
        while names and names[-1] not in arguments:
            names.pop()
        try:
            command = ["bash", str(self.path), *(as_word(arguments.get(name, "")) for name in names)]
            given = as_word(arguments.get(STDIN, "")).encode()
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except (ValueError, UnicodeError) as problem:  # a null byte, or half of a surrogate pair
            return {"raised": ["ValueError"], "text": str(problem)}
        try:
            out, err = process.communicate(given, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ProgramEnded from None
        finally:
            _kill(process)
        said = err.decode(errors="replace")
        if process.returncode:
            status = process.returncode if process.returncode > 0 else 128 - process.returncode
            return {"raised": [f"ExitStatus{status}", "ExitStatus"], "text": said[-MOST_TEXT:]}
        sys.stderr.write(said)
        return self._result(out)

    def _result(self, out: bytes) -> dict[str, Any]:
        try:
            text = out.decode()
            if len(text) > MOST_OUTPUT:
                raise ValueError("it prints too much; write it to a file")  # noqa: TRY301
            return {"value": text.rstrip("\n") if self._text else json.loads(text, parse_constant=_no_constant)}
        except (ValueError, RecursionError) as problem:
            return {"raised": ["ValueError"], "text": f"{problem}, in its output {out[:200]!r}"}


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
    """Make calls to a program, each in a folder with only the files of the call, and return its answers as packed data.

    Args:
        parameters: the names of its parameters, in order.
        text: whether the result of a script is text, and not JSON.
        seconds: time limit for all calls.
        each_s: time limit for each call; 0 for none.

    Returns:
        ``answers``: one for each call, or `ENDED` for a call that got none; None if the program cannot be loaded.
        ``seconds``: the wall time they took.
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
    """Make one call in the working folder, and return its value. Raises an exception of the type that it raised."""
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


def as_word(value: Any) -> str:
    """Return a JSON value as an argument of a script: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
    """Discard what programs print, so that they cannot end the box by printing too much."""
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
        return {"lost": f"its arguments cannot be restored ({type(problem).__name__})"}
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
        return {"lost": f"its files cannot be packed ({type(problem).__name__})"}
    return answer if after == before else {**answer, "files": after}


def _types(answer: Mapping[str, Any]) -> list[str]:
    """Return the names of the type of an exception and of its bases. They come from the program."""
    named = answer["raised"] if isinstance(answer["raised"], list) else []
    found = [name for name in map(str, named) if name.isidentifier() and len(name) <= MOST_NAME]
    return list(dict.fromkeys(found))[:8] or ["Thrown"]


def _empty(folder: Path) -> None:
    """Remove everything in a folder, but not the folder, which is the working folder of a process."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with everything that it has started in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
