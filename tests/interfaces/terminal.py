"""Run `knackbox` in a terminal, and answer what it asks."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.interfaces.cli import REPOSITORY, command

DEADLINE_S = 90
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def at_terminal(home: Path, *arguments: str, prompt: str, answer: Callable[[str], str]) -> tuple[int, str]:
    """Run a command in a terminal. Return its exit code and what it showed.

    answer: called with the output since the last answer whenever that ends with `prompt`; returns what is typed.
    """
    master, slave = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KNACKBOX_")}
    environ = kept | {"PYTHONPATH": str(REPOSITORY), "COLUMNS": "200", "TERM": "xterm"}
    process = subprocess.Popen(
        command("--home", str(home), *arguments), cwd=REPOSITORY, env=environ, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown, answered = b"", 0
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            shown += data
            since = _ESCAPES.sub("", shown[answered:].decode(errors="replace")).replace("\r\n", "\n")
            if since.endswith(prompt):
                answered = len(shown)
                os.write(master, answer(since).encode())
        return process.wait(DEADLINE_S), _ESCAPES.sub("", shown.decode(errors="replace"))
    finally:
        process.kill()
        process.wait()
        os.close(master)
