"""`knackbox call` at a terminal shows the progress and output of a tool while it runs."""

import contextlib
import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from engine.interfaces.cli.shared import printable
from tests.interfaces.cli import REPOSITORY, command

DEADLINE_S = 60
CODE = (
    "import pathlib, time; print('half' + ' way', flush=True)\\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"
)


@pytest.mark.spec("CALL-11")
def test_output_is_shown_while_the_code_still_runs(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    words = ("--home", str(tmp_path), "call", "execute", "--args", f'{{"language": "python", "code": "{CODE}"}}')
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KNACKBOX_")}
    process = subprocess.Popen(
        command(*words), cwd=REPOSITORY, env=environ | {"TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown, deadline = b"", time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 0.2)[0]:
                continue
            data = b""
            with contextlib.suppress(OSError):  # the other side is closed
                data = os.read(master, 65536)
            if not data:
                break
            shown += data
            if b"half way" in shown:
                (tmp_path / "workspace" / "go").touch()  # it ends only because its output was seen
        assert process.wait(DEADLINE_S) == 0, shown
        assert b"calling execute: half way" in shown
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_control_characters_are_removed_from_progress() -> None:
    assert printable("a\x1b[2Jb\x07\r\u202ec é") == "a[2Jbc é"
