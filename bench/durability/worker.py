"""Processes that work on the run, and kill themselves where they are told to. Standard library only.

The peers run it with an interpreter of their own. A worker imports everything once and then forks a process for each
line of its input, so that the time of imports, which is told separately, is not part of a resumption.
"""

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MESSAGE = "Do all of it."
PID_FILE, EFFECTS_FILE, ACTIONS_FILE = "pid", "effects.txt", "actions.txt"


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is to do.

    Attributes:
        folder: A folder of its own, in which it keeps its state and `Actions` writes.
        url: The base URL of the model.
        point: Where a call kills the process: "call" before its effect, or "effect" after it; "" nowhere.
        number: At which call.
    """

    folder: str
    url: str
    point: str = ""
    number: int = 0


class Actions:
    """What the tools do: they note the time, and have an effect, which is a line of a file."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._folder = Path(order.folder)
        self._calls = 0

    def perform(self, name: str, number: int) -> str:
        """Perform a call of a tool, and return its result."""
        self._calls += 1
        at = self._calls
        _append(self._folder / ACTIONS_FILE, f"{time.monotonic()}")
        self._die("call", at)
        if name != "look":
            _append(self._folder / EFFECTS_FILE, f"{name} {number}")
        self._die("effect", at)
        return f"{name} {number} done"

    def happened(self, what: str) -> str:
        """Return whether an effect has happened, as yes or no."""
        file = self._folder / EFFECTS_FILE
        return "yes" if file.exists() and what in file.read_text().splitlines() else "no"

    def _die(self, point: str, number: int) -> None:
        if (self._order.point, self._order.number) == (point, number):
            os.kill(os.getpid(), signal.SIGKILL)


def serve(work: Callable[[Order], None], began: float) -> None:
    """Fork a process for each order on the standard input, and answer with a line of JSON.

    Args:
        work: Does the run to its end, or what is left of it.
        began: When the imports began, by `time.monotonic`.
    """
    imports_s = time.monotonic() - began
    warm = False
    for line in sys.stdin:
        order = Order(**json.loads(line))
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            (Path(order.folder) / PID_FILE).write_text(str(os.getpid()))
            ready, before = time.monotonic(), _written()
            work(order)
            told = {"ready": ready, "took_s": time.monotonic() - ready, "written": _written() - before}
            with os.fdopen(writer, "w") as out:
                json.dump(told | {"modules": sorted(sys.modules)}, out)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        os.waitpid(pid, 0)
        found: dict[str, Any] = json.loads(text) if text else {}
        modules = found.pop("modules", ())
        if not warm and modules:  # libraries import more when they are first used
            started = time.monotonic()
            for name in modules:
                with suppress(ImportError):
                    importlib.import_module(name)
            imports_s += time.monotonic() - started
            warm = True
        print(json.dumps(found | {"killed": not text, "imports_s": imports_s}), flush=True)


def line_of(order: Order) -> str:
    """Return the line of the standard input for an order."""
    return json.dumps(asdict(order)) + "\n"


def _append(file: Path, line: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def _written() -> int:
    """Return how many bytes this process has given to write(2) and its kind, which does not include sockets."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])
