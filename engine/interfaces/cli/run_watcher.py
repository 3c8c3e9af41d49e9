"""`RunWatcher`: shows the events of a run at a terminal. Streamed text goes to stdout, everything else to stderr."""

import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.text import Text

from engine.agent.budget import Finish
from engine.agent.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    Event,
    HookFailed,
    MessageReceived,
    ModelAwaited,
    Nudged,
    PromptCompacted,
    Replanned,
    Report,
    TextPiece,
    TurnStarted,
)
from engine.interfaces.cli.shared import Exit, emit, printable, say
from engine.interfaces.cli.spinner import Spinner

SHOWN = 160  # characters of arguments and results in one line of the log
RESUMABLE = (Finish.APPROVAL, Finish.MODEL_ERROR)
MAX_PROGRESS_LINES = 20  # progress lines printed for one call


class RunWatcher:
    """Shows the runs of one command: the streamed text, the calls, and what a run cost."""

    def __init__(self, *, stream: bool, spinner: Spinner | None = None) -> None:
        """Create the object.

        Args:
            stream: Whether text is streamed to stdout.
            spinner: Shown while the model or a tool works, if stderr is a terminal.
        """
        self._stream = stream
        self._spinner = spinner
        self._err = Console(stderr=True, highlight=False)
        self._streamed = ""
        self._progress_lines: dict[str, int] = {}  # lines printed, by id of the running call
        self._began: float | None = None
        self.tokens = 0  # of all runs that were not stopped, as are the costs
        self._cost: float | None = None
        self._currency = ""

    def __call__(self, event: Event) -> None:
        self._wait_ends()
        if isinstance(event, MessageReceived | ModelAwaited | Nudged):
            self._break_line()
            self._streamed = ""  # what was streamed before it is not the answer
        match event:
            case TurnStarted(number):
                self._began = self._began or time.monotonic()
                self._wait_begins(f"turn {number}: waiting for the model")
            case TextPiece(text):
                self._streamed += text
                sys.stdout.write(text)
                sys.stdout.flush()
            case CallStarted(call):
                self._break_line()
                given = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
                self._log(f"→ {call.name} {given}")
                self._wait_begins(call.name)
            case CallProgress(call, message, fraction):
                count = self._progress_lines[call.id] = self._progress_lines.get(call.id, 0) + 1
                if count <= MAX_PROGRESS_LINES:
                    self._break_line()
                    share = "" if fraction is None else f" {fraction:.0%}"
                    self._log(f"… {shorten(message)}{share}")
                self._wait_begins(call.name)
            case CallFinished(call, result):
                self._progress_lines.pop(call.id, None)
                took = f"{result.audit.duration_ms:.0f} ms"
                mark = ("✓ ", "green") if result.success else ("✗ ", "red")
                self._log(f"{call.name} {took} {result.text}", mark)
            case ModelAwaited(error, wait_s):
                self._log(f"⏸ {shorten(error)} Trying again in {wait_s:.0f} s.", whole=True)
                self._wait_begins("waiting for the model")
            case HookFailed() | MessageReceived() | Nudged() | PromptCompacted() | Replanned():
                self._break_line()
                self._log(step_of(event))

    def close(self, report: Report) -> None:
        """End the output of one run: print the answer if it was not streamed, and what the run cost."""
        self._wait_ends()
        self._break_line()
        self.tokens += report.tokens
        if report.cost is not None:
            self._cost = (self._cost or 0.0) + report.cost
            self._currency = report.currency
        if self._stream and not self._streamed.rstrip().endswith(report.answer):
            emit(report.answer)
        self._streamed = ""
        if report.finish is not Finish.ANSWER:
            say(f"the run ended without an answer: {report.finish.value}.")
        if report.run and report.finish in RESUMABLE:
            say(f"knackbox runs resume {report.run} continues it.")
        if self._err.is_terminal:
            self._log(self._usage_of(report))
        self._began = None

    def interrupted(self) -> None:
        """End the output of a run that was stopped."""
        self._wait_ends()
        self._break_line()
        self._streamed = ""
        self._began = None
        self._progress_lines.clear()

    def spent(self) -> str:
        """Return what the runs used together, such as ``2,345 tokens, 0.0123 USD``."""
        used = counted(self.tokens, "token")
        return used if self._cost is None else f"{used}, {self._cost:.4f} {self._currency}"

    def _usage_of(self, report: Report) -> str:
        """Return a line such as ``2 turns, 1 call, 1,234 tokens, 5.6 s; 2,345 tokens so far``."""
        parts = [counted(report.turns, "turn"), counted(len(report.calls), "call"), counted(report.tokens, "token")]
        parts += [f"{report.cached_tokens:,} cached"] if report.cached_tokens else []
        parts += [f"{report.cost:.4f} {report.currency}"] if report.cost is not None else []
        parts += [f"{time.monotonic() - self._began:.1f} s"] if self._began is not None else []
        total = f"; {counted(self.tokens, 'token')} so far" if self.tokens != report.tokens else ""
        return ", ".join(parts) + total

    def _log(self, text: str, mark: tuple[str, str] | None = None, *, whole: bool = False) -> None:
        """Print a line of the log. On a terminal it is cut to one row, unless it must be shown as a whole."""
        line = Text(mark[0], style=mark[1]) if mark is not None else Text()
        line.append(printable(text if whole else shorten(text)), style="dim")
        one_row = self._err.is_terminal and not whole
        self._err.print(line, no_wrap=one_row, overflow="ellipsis" if one_row else "fold", soft_wrap=not one_row)

    def _wait_begins(self, what: str) -> None:
        if self._spinner is not None and self._err.is_terminal and not self._open_line():
            self._spinner.begin(what)

    def _wait_ends(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def _open_line(self) -> bool:
        return bool(self._streamed) and not self._streamed.endswith("\n")

    def _break_line(self) -> None:
        if self._open_line():
            self._streamed += "\n"
            sys.stdout.write("\n")
            sys.stdout.flush()


def step_of(event: HookFailed | MessageReceived | Nudged | PromptCompacted | Replanned) -> str:
    """Return a line about something that happened between calls."""
    match event:
        case MessageReceived(sender, text, stop):
            return f"✉ {'stop' if stop else 'message'} from {sender}: {text}"
        case HookFailed(hook, error):
            return f"the hook {hook} failed: {error}"
        case Nudged():
            return "↻ it only announced work, and was told to do it"
        case Replanned(reason):
            return f"⟳ new plan: {reason}"
    return f"▤ the prompt was nearly full: {event.results} results shortened, {event.messages} messages summarized"


def counted(number: int, what: str) -> str:
    """Return a number with its noun, such as ``1 call`` or ``1,234 tokens``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def shorten(text: str) -> str:
    """Return a text as one line of at most `SHOWN` characters."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def exit_code(report: Report) -> Exit:
    """Return the exit code of a command that ends with a run."""
    if report.finish is Finish.ANSWER:
        return Exit.OK
    return Exit.ENVIRONMENT if report.finish is Finish.MODEL_ERROR else Exit.FAILED


def as_object(report: Report) -> dict[str, Any]:
    """Return a report as a JSON object."""
    return {
        "run": report.run,
        "finish": report.finish.value,
        "answer": report.answer,
        "turns": report.turns,
        "tokens": report.tokens,
        "cached_tokens": report.cached_tokens,
        "cost": report.cost,
        "currency": report.currency,
        "calls": [
            {
                "tool": one.call.name,
                "arguments": dict(one.call.arguments),
                "success": one.result.success,
                "text": one.result.text,
                "duration_ms": one.result.audit.duration_ms,
            }
            for one in report.calls
        ],
    }
