"""Runs one Node or Bash program in separate processes.

This module runs in the box. A call gives its arguments by name, as JSON. A Node function receives them in the order of
its parameters. A Bash script receives them as `$1`, `$2`, …, and the argument named `stdin` on standard input. The
standard output of the script is the result.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acquired_skills.in_box.node_driver import DRIVER

HERE = Path(__file__).resolve().parents[2]  # the job's folder
STDIN = "stdin"  # the parameter of a Bash script that is passed as its standard input
MOST_OUTPUT = 1 << 20  # maximum number of characters of one result
MOST_TEXT = 2_000  # maximum number of characters of one error message
_LOADING_S = 20.0


class ProgramEnded(Exception):
    """The program ended, or exceeded its time limit, before it gave an answer."""


class CannotLoad(Exception):
    """The program cannot be loaded."""


class ProgramCaller(ABC):
    """Makes calls to one program.

    An answer is a dictionary. It contains either ``value``, or ``raised`` (the names of the exception's type and of its
    base classes) and ``text`` (the error message).
    """

    def __init__(self, path: Path, parameters: Sequence[str]) -> None:
        self.path = path
        self.parameters = parameters

    @abstractmethod
    def answer(self, arguments: Mapping[str, Any], folder: Path, seconds: float | None) -> dict[str, Any]:
        """Make one call in a folder and return its answer.

        Raises:
            ProgramEnded: The program ended, or exceeded its time limit, without an answer.
            CannotLoad: The program cannot be loaded.
        """

    def close(self) -> None:  # noqa: B027 -- optional
        """End the processes of the program."""


class NodeCaller(ProgramCaller):
    """Calls the exported function of a module. One process makes all calls, and is restarted if it ends."""

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
            found = {"raised": ["Thrown"], "text": "the program ended its process while it was being loaded"}
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
        """Create a caller of a script.

        Args:
            text: Whether the result is the standard output as text. If not, the output is parsed as JSON.
        """
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
                raise ValueError(f"the script prints more than {MOST_OUTPUT:,} characters; write them to a file")  # noqa: TRY301
            return {"value": text.rstrip("\n") if self._text else json.loads(text, parse_constant=_no_constant)}
        except (ValueError, RecursionError) as problem:
            return {"raised": ["ValueError"], "text": f"{problem}, in its output {out[:200]!r}"}


def as_word(value: Any) -> str:
    """Return a JSON value as an argument of a script: a string as it is, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all processes of its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
