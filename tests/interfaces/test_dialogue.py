"""`knackbox chat` without a message starts a dialogue at a terminal."""

import asyncio
import fcntl
import os
import pty
import select
import subprocess
import termios
from pathlib import Path

import pytest

from tests.agent.scripted_model import calls, says, serving
from tests.interfaces.cli import REPOSITORY, command

DEADLINE_S = 60


class Terminal:
    """A pseudo-terminal in which a command runs."""

    def __init__(self, arguments: list[str], environ: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            arguments,
            cwd=REPOSITORY,
            env=environ,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 -- one ioctl, so that ^C is a signal
        )
        os.close(slave)
        self._seen = b""

    async def until(self, text: str) -> None:
        """Read the output until it contains this text."""
        while text.encode() not in self._seen:
            ready, _, _ = await asyncio.to_thread(select.select, [self._master], [], [], DEADLINE_S)
            assert ready, f"{text!r} was not shown; the output is {self._seen!r}"
            self._seen += os.read(self._master, 4096)
        self._seen = self._seen.split(text.encode(), 1)[1]

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.mark.spec("LOOP-1")
async def test_an_interrupt_stops_the_run_and_the_dialogue_continues(tmp_path: Path) -> None:
    endless = calls(("execute", {"language": "python", "code": "while True: pass"}))
    async with asyncio.timeout(DEADLINE_S), serving(says("First."), endless, says("After.")) as model:
        environ = {"KNACKBOX_MODEL_NAME": "scripted", "KNACKBOX_MODEL_BASE_URL": model.base_url}
        terminal = Terminal(command("--home", str(tmp_path), "chat"), {**os.environ, **environ})
        try:
            await terminal.until("> ")
            terminal.type("hello\n")
            await terminal.until("First.")
            await terminal.until("> ")
            terminal.type("loop\n")
            await terminal.until("→ execute")
            terminal.type("\x03")
            await terminal.until("stopped.")
            await terminal.until("> ")
            terminal.type("and now?\n")
            await terminal.until("After.")
            await terminal.until("> ")
            terminal.type("\x04")
            assert await asyncio.to_thread(terminal.process.wait, DEADLINE_S) == 0
        finally:
            terminal.close()
    assert "cancelled" in model.tool_messages()[0].lower()
