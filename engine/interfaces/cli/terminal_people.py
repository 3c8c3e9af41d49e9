"""`people_at_terminal`: the person at the terminal, who approves calls and fills in forms."""

import asyncio
import sys

from engine.app.people import People
from engine.interfaces.cli.spinner import Spinner
from engine.interfaces.cli.terminal_approver import TerminalApprover
from engine.interfaces.cli.terminal_forms import TerminalForms


def people_at_terminal(spinner: Spinner | None = None) -> People:
    """Return the approver and the form filler for an engine, or neither if stdin or stderr is not a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return People()
    shown, lock = spinner or Spinner(), asyncio.Lock()
    return People(approver=TerminalApprover(shown, lock), filler=TerminalForms(shown, lock))
