"""`knackbox chat` without a message starts a dialogue at a terminal."""

import asyncio
import fcntl
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from engine.agent.events import Report
from engine.interfaces.cli.chat_request import ChatRequest
from engine.interfaces.cli.dialogue import Dialogue
from engine.interfaces.cli.line_editor import PrivateHistory, SlashCompleter, history_of
from engine.interfaces.cli.run_watcher import RunWatcher
from engine.interfaces.cli.slash_commands import arguments_of, is_command, refusal_of
from tests.agent.scripted_model import Scripted, ScriptedModel, calls, says, serving
from tests.interfaces.cli import REPOSITORY, command

DEADLINE_S = 240
PROMPT = "\x1b[?2004h"  # the line editor turns on bracketed paste when it shows the prompt
pytestmark = pytest.mark.timeout(300)

ENDLESS = calls(("execute", {"language": "python", "code": "while True: pass"}))
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A pseudo-terminal in which a command runs."""

    def __init__(self, arguments: list[str], environ: dict[str, str], columns: int = 100) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
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

    async def until(self, text: str) -> str:
        """Read the output until it contains this text, and return what came before it, without escape sequences."""
        while text.encode() not in self._seen:
            ready, _, _ = await asyncio.to_thread(select.select, [self._master], [], [], DEADLINE_S)
            assert ready, f"{text!r} was not shown; the output is {self._seen!r}"
            self._seen += os.read(self._master, 4096)
        before, self._seen = self._seen.split(text.encode(), 1)
        return _ESCAPES.sub("", before.decode(errors="replace"))

    async def say(self, line: str) -> str:
        """Type a line, and return what is shown until the next prompt."""
        self.type(line + "\r")
        await self.until("\x1b[?2004l")
        return await self.until(PROMPT)

    async def leave(self) -> int:
        """Type Ctrl-D, and return the exit code."""
        self.type("\x04")
        return await self.ended()

    async def ended(self) -> int:
        """Return the exit code of the process when it has ended, reading its output meanwhile."""
        reading = asyncio.create_task(asyncio.to_thread(self._drain))
        code = await asyncio.to_thread(self.process.wait, DEADLINE_S)
        await reading
        return code

    def _drain(self) -> None:
        try:
            while data := os.read(self._master, 4096):
                self._seen += data
        except OSError:  # the other side is closed
            return

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@asynccontextmanager
async def dialogue(
    home: Path, *script: Scripted, options: tuple[str, ...] = (), columns: int = 100
) -> AsyncIterator[tuple[Terminal, ScriptedModel]]:
    """Run `knackbox chat` in a terminal, with a scripted model, and wait for the prompt."""
    async with asyncio.timeout(DEADLINE_S), serving(*script) as model:
        environ = {"KNACKBOX_MODEL_NAME": "scripted", "KNACKBOX_MODEL_BASE_URL": model.base_url}
        arguments = command("--home", str(home), "chat", *options)
        terminal = Terminal(arguments, {**os.environ, **environ, "TERM": "xterm"}, columns)
        try:
            await terminal.until(PROMPT)
            yield terminal, model
        finally:
            terminal.close()


def said(model: ScriptedModel) -> list[str]:
    """Return what the user said, by the latest request."""
    return [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "user"]


@pytest.mark.slow
@pytest.mark.spec("LOOP-1", "FACE-23")
async def test_an_interrupt_stops_the_run_and_the_dialogue_continues(tmp_path: Path) -> None:
    async with dialogue(tmp_path, says("First."), ENDLESS, says("After.", tokens=1234)) as (terminal, model):
        assert "First." in await terminal.say("hello")
        terminal.type("loop\r")
        await terminal.until("→ execute")
        terminal.type("\x03")
        await terminal.until("stopped.")
        await terminal.until(PROMPT)
        shown = await terminal.say("and now?")
        assert "After." in shown
        assert "1 turn, 0 calls, 1,234 tokens" in shown
        assert await terminal.leave() == 0
    assert "cancelled" in model.tool_messages()[0].lower()


@pytest.mark.slow
@pytest.mark.spec("FACE-23")
async def test_interrupts_at_the_prompt_discard_the_line_and_then_leave(tmp_path: Path) -> None:
    async with dialogue(tmp_path, says("First.")) as (terminal, model):
        assert "First." in await terminal.say("hello")
        terminal.type("rubbish\x03")
        await terminal.until(PROMPT)
        terminal.type("\x03")
        await terminal.until("Ctrl-C again or Ctrl-D leaves.")
        await terminal.until(PROMPT)
        terminal.type("\x03")
        assert await terminal.ended() == 0
    assert len(model.requests) == 1


@pytest.mark.slow
@pytest.mark.spec("FACE-23")
async def test_commands_show_what_the_command_line_shows_and_change_the_conversation(tmp_path: Path) -> None:
    async with dialogue(tmp_path, says("First."), says("Second."), says("Third.")) as (terminal, model):
        await terminal.say("hello")
        run = next(iter(re.findall(r"^([0-9a-f]{8}) ", await terminal.say("/runs"), re.MULTILINE)), "")
        assert run
        assert "/jobs" in await terminal.say("/help")
        assert "First." in await terminal.say(f"/runs show {run}")
        assert "Did you mean /runs?" in await terminal.say("/rns")
        assert "another terminal" in await terminal.say("/serve")
        assert "No closing quotation" in await terminal.say("/runs show 'x")
        assert "10 tokens in this dialogue" in await terminal.say("/cost")
        assert "no run" in (await terminal.say("/resume 12345678")).lower()
        await terminal.say("/new")
        assert "Second." in await terminal.say("anew")
        assert said(model) == ["anew"]
        assert "after: hello It was answered: First." in await terminal.say(f"/resume {run}")
        assert "Third." in await terminal.say("go on")
        assert said(model) == ["hello", "go on"]
        assert "already ended" in await terminal.say("/cancel")
        terminal.type("/exit\r")
        assert await terminal.ended() == 0


@pytest.mark.slow
@pytest.mark.spec("FACE-23", "LOOP-6")
async def test_the_cost_of_all_runs_is_shown_if_the_price_of_the_model_is_known(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[prices.scripted]\ninput = 1000.0\noutput = 1000.0\ncurrency = "EUR"\n')
    async with dialogue(tmp_path, says("First."), says("Second.")) as (terminal, _):
        await terminal.say("hello")
        await terminal.say("and now?")
        assert "20 tokens, 0.0200 EUR in this dialogue" in await terminal.say("/cost")
        assert await terminal.leave() == 0


@pytest.mark.slow
@pytest.mark.spec("FACE-23")
async def test_an_interrupted_run_is_continued_before_the_next_message(tmp_path: Path) -> None:
    """The process is killed while a call runs. `--continue` works on this run first."""
    async with dialogue(tmp_path, ENDLESS) as (terminal, _):
        terminal.type("loop\r")
        await terminal.until("→ execute")
        terminal.process.send_signal(signal.SIGKILL)
        terminal.process.wait()
    async with dialogue(tmp_path, says("Resumed."), says("After."), options=("--continue",)) as (terminal, model):
        await terminal.until("Resumed.")
        await terminal.until(PROMPT)
        assert "After." in await terminal.say("and now?")
        assert "loop" in said(model)[0]
        assert await terminal.leave() == 0


@pytest.mark.slow
@pytest.mark.spec("FACE-23")
async def test_each_line_of_the_log_fits_a_narrow_terminal(tmp_path: Path) -> None:
    note = calls(("scratchpad", {"action": "set", "key": "k", "value": "long " * 40}))
    async with dialogue(tmp_path, note, says("Done."), columns=24) as (terminal, _):
        shown = await terminal.say("note it")
        assert await terminal.leave() == 0
    marked = [line for line in re.split(r"[\r\n]+", shown) if line.startswith(("→", "✓"))]
    assert len(marked) == 2
    assert all(len(line) <= 24 for line in marked)


async def test_a_second_interrupt_leaves_although_the_run_does_not_stop() -> None:
    stopping = asyncio.Event()

    async def stubborn() -> Report:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopping.set()
            await asyncio.Event().wait()
        raise AssertionError

    nothing = cast("Any", None)
    talk = Dialogue(nothing, nothing, RunWatcher(stream=True), editor=nothing, first=nothing, known=dict)
    working = asyncio.create_task(talk._work(stubborn(), ChatRequest()))
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.sleep(0)  # the run begins
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        await stopping.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait([working])
    assert working.cancelled()
    assert talk.left


@pytest.mark.spec("FACE-23")
def test_the_prompt_needs_no_engine_and_no_model_client() -> None:
    code = "import sys, engine.interfaces.cli.main, engine.interfaces.cli.dialogue_start; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    heavy = {"pydantic", "pydantic_ai", "sqlalchemy", "numpy", "httpx", "openai", "rich", "chromadb"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.spec("FACE-23")
def test_lines_are_kept_privately_unless_they_begin_with_a_space(tmp_path: Path) -> None:
    path = tmp_path / "home" / "chat_history"
    history = history_of(path)
    for line in ("first", " secret", "second"):
        history.append_string(line)
    assert list(PrivateHistory(str(path)).load_history_strings()) == ["second", "first"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    unusable = history_of(path / "below")
    unusable.append_string("kept in memory")


@pytest.mark.spec("FACE-23")
def test_only_a_slash_and_a_word_is_a_command() -> None:
    assert is_command("/runs")
    assert is_command("/jobs history x")
    for line in ("/home/me/a.csv has how many rows?", "a /runs", "/", "/2", ""):
        assert not is_command(line)
    assert arguments_of(["runs"]) == ["runs", "list"]
    assert arguments_of(["tools", "roman", "numerals"]) == ["tools", "--query", "roman numerals"]
    assert arguments_of(["tools", "--why"]) == ["tools", "--why"]
    assert refusal_of("audit", {"audit": ""}) == ""
    completer = SlashCompleter(lambda: ["resume", "runs"])
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    found = [each.text for each in completer.get_completions(Document("/ru"), CompleteEvent())]
    assert found == ["/runs"]
