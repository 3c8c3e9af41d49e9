"""Shows the demo on a terminal."""

import json
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.agent.events import CallFinished, CallStarted, Event, TurnStarted
from engine.contract.spec import Origin, ToolSpec

from .moves import Scene
from .stage import Happened

_SHOWN_ARGUMENTS = 90
_SHOWN_LINES = 6


class DemoScreen:
    """Shows scenes and calls as they happen."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def title(self, *, model: str) -> None:
        self._console.rule("[bold]Knackbox: learn, find, call, recover, delete")
        self._console.print(model, style="italic")

    def scene(self, scene: Scene) -> None:
        self._console.print()
        self._console.rule(f"[bold]{scene.title}", align="left")
        self._console.print(f"[bold cyan]user[/]  {escape(scene.message)}")

    def offered(self, specs: Sequence[ToolSpec]) -> None:
        found = [spec.name for spec in specs if spec.origin is not Origin.STATIC]
        if found:
            self._console.print(f"      [dim]skills found for it: {', '.join(found)}[/]")

    def answer(self, text: str) -> None:
        self._console.print(f"[bold green]model[/] {escape(text)}")

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                return
            case CallStarted(call):
                given = json.dumps(dict(call.arguments), ensure_ascii=False)
                self._console.print(f"[bold green]model[/] → [bold]{call.name}[/] [dim]{escape(_short(given))}[/]")
            case CallFinished(_, result):
                mark = "[green]✓[/]" if result.success else "[red]✗[/]"
                lines = [line for line in result.text.strip().splitlines() if line.strip()]
                shown = lines[:_SHOWN_LINES] + (["…"] if len(lines) > _SHOWN_LINES else [])
                for index, line in enumerate(shown or ["done"]):
                    self._console.print(f"      {mark if index == 0 else ' '} {escape(line)}", highlight=False)

    def summary(self, story: Sequence[Happened], wall_s: float) -> None:
        """Show a table of all calls, with their results and durations."""
        self._console.print()
        table = Table(title=f"What happened, in {wall_s:.1f} s", title_justify="left")
        for column in ("what", "tool", "end"):
            table.add_column(column, overflow="fold")
        for column in ("attempts", "ms"):
            table.add_column(column, justify="right")
        for one in story:
            audit = one.finished.result.audit
            mark = "" if one.as_expected else " [red](not as expected)[/]"
            table.add_row(
                f"{one.what}{mark}",
                one.finished.call.name,
                audit.end,
                str(audit.attempts),
                f"{audit.duration_ms:.1f}",
            )
        self._console.print(table)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_ARGUMENTS else text[:_SHOWN_ARGUMENTS] + "…"
