"""`TerminalApprover`: shows a call at the terminal, and lets it run only if the user types yes (ACCESS-8)."""

import asyncio
import sys
import termios

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from engine.interfaces.cli.spinner import Spinner
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from engine.policy.risk import risk_of

_SHOWN_CHARACTERS = 4_000  # limit for the arguments
_YES = frozenset({"y", "yes"})


class TerminalApprover:
    """Asks for approval on stderr and reads the answer from stdin, one call at a time. Both must be terminals."""

    def __init__(self, spinner: Spinner, lock: asyncio.Lock) -> None:
        """Create an approver that pauses this spinner while it asks.

        Args:
            lock: The lock to hold while a person is asked anything.
        """
        self._spinner = spinner
        self._lock = lock
        self._console = Console(stderr=True, highlight=False)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Show a call and wait for the answer."""
        async with self._lock:
            with self._spinner.paused():
                answer = await self._answer(request)
        approved = answer.strip().lower() in _YES
        reason = "" if approved else "not approved at the terminal"
        return ApprovalAnswer(approved, request.digest, reason, f"{request.user} at the terminal")

    async def _answer(self, request: ApprovalRequest) -> str:
        discard_input()
        self._console.print(Panel(description_of(request), title=Text(f"Run {request.tool.name}?"), title_align="left"))
        self._console.print("[y/N] ", end="", markup=False)
        return await one_line()


def description_of(request: ApprovalRequest) -> Text:
    """Return the text that a person reads before answering: the tool, its risk and the arguments."""
    risk = risk_of(request.tool, request.arguments)
    arguments = request.shown(_SHOWN_CHARACTERS)
    return Text(f"{request.tool.summary}\nrisk {risk}, requested by {request.user!a}\n{arguments}")


def discard_input() -> None:
    """Discard input that was typed before the question was shown."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)


async def one_line() -> str:
    """Return the next line of stdin, or "" at its end. Unlike a thread that runs `input`, it can be cancelled."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()
