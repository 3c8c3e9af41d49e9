"""Approval at the terminal (ACCESS-8): what would run is shown, and nothing but a typed yes lets it."""

import asyncio
import sys
import termios

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from engine.interfaces.cli.spinner import Spinner
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from engine.policy.risk import risk_of

_SHOWN = 4_000  # characters of the arguments
_YES = frozenset({"y", "yes"})


class TerminalApprover:
    """Asks on stderr and reads a line of stdin, one question after the other. For a terminal on both."""

    def __init__(self, spinner: Spinner | None = None) -> None:
        """spinner: what else writes to the terminal; it is still meanwhile."""
        self._spinner = spinner or Spinner()
        self._turn = asyncio.Lock()
        self._console = Console(stderr=True, highlight=False)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        async with self._turn:
            with self._spinner.paused():
                answer = await self._answer(request)
        approved = answer.strip().lower() in _YES
        reason = "" if approved else "not approved at the terminal"
        return ApprovalAnswer(approved, request.digest, reason, f"{request.user} at the terminal")

    async def _answer(self, request: ApprovalRequest) -> str:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
        self._console.print(Panel(shown(request), title=Text(f"Run {request.tool.name}?"), title_align="left"))
        self._console.print("[y/N] ", end="", markup=False)
        return await one_line()


def at_terminal(spinner: Spinner | None = None) -> TerminalApprover | None:
    """One that asks, where there is somebody to ask."""
    return TerminalApprover(spinner) if sys.stdin.isatty() and sys.stderr.isatty() else None


def shown(request: ApprovalRequest) -> Text:
    """What a person reads."""
    risk = risk_of(request.tool, request.arguments)
    return Text(f"{request.tool.summary}\nrisk {risk}, asked by {request.user!a}\n{request.shown(_SHOWN)}")


async def one_line() -> str:
    """The next line of stdin; "" at its end. Waiting for it can be cancelled, which a thread in `input` cannot."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()
