"""`TerminalForms`: shows the questions of a form at the terminal, one after another. Each answer is one line."""

import asyncio
from collections.abc import Mapping

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from engine.interfaces.cli.shared import visible
from engine.interfaces.cli.spinner import Spinner
from engine.interfaces.cli.terminal_approver import discard_input, one_line
from engine.policy.forms import Form


class TerminalForms:
    """Shows forms on stderr and reads the answers from stdin. Both must be terminals."""

    def __init__(self, spinner: Spinner, lock: asyncio.Lock) -> None:
        """Create the object.

        Args:
            spinner: The spinner to pause while a form is shown.
            lock: The lock to hold while a person is asked anything.
        """
        self._spinner = spinner
        self._lock = lock
        self._console = Console(stderr=True, highlight=False)

    async def fill(self, form: Form) -> Mapping[str, str] | None:
        """Ask for each field. An empty line skips the field, and the end of input (Ctrl-D) declines the form."""
        found: dict[str, str] = {}
        async with self._lock:
            with self._spinner.paused():
                discard_input()
                self._console.print(Panel(Text(visible(form.message)), title="Questions", title_align="left"))
                for number, field in enumerate(form.fields, 1):
                    if field.hint and (number == 1 or field.hint != form.fields[number - 2].hint):
                        self._console.print(Text(visible(field.hint), style="dim"))
                    title = Text(f"{number} of {len(form.fields)}: {visible(field.title)}\n> ")
                    self._console.print(title, end="", soft_wrap=True)
                    line = await one_line()
                    if not line:
                        self._console.print()
                        return None
                    found[field.name] = line
        return found
