"""`knackbox doctor`: every protection and every part, whether it is there, why not, and what to do."""

import asyncio
import os

import typer
from rich.text import Text

from engine.app.doctor import OK, Check, examine
from engine.app.home import Home
from engine.app.sandboxes import unsafe_sandbox
from engine.faces.cli.shared import Exit, Json, emit_json, options, print_table, say, wants_json, working
from sandbox.contract import State

app = typer.Typer(pretty_exceptions_enable=False)

GOOD = frozenset({OK, State.ENFORCED.value})


@app.command()
def doctor(ctx: typer.Context, as_json: Json = False) -> None:
    """Show what holds on this machine. Ends with 3 when something that is required is missing."""
    home = Home.locate(options(ctx).home, os.environ)
    sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None
    with working("examining"):
        checks = asyncio.run(examine(home, os.environ, sandbox))
    bad = [check for check in checks if check.bad]
    if wants_json(ctx, as_json):
        emit_json({"ok": not bad, "checks": [check.as_dict() for check in checks]})
    else:
        show(checks)
        names = ", ".join(check.name for check in bad)
        say(f"required but missing or broken: {names}." if bad else "all that is required is there.")
    raise typer.Exit(int(Exit.ENVIRONMENT if bad else Exit.OK))


def show(checks: list[Check]) -> None:
    rows: list[tuple[str | Text, ...]] = []
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            rows.append((Text(group, style="bold"), "", ""))
        good = check.state in GOOD
        colour = "green" if good else "red" if check.bad else "yellow"
        told = check.detail if good else " ".join(part for part in (check.detail, check.remedy) if part)
        rows.append((f"  {check.name}", Text(check.state, style=colour), told))
    print_table(("what", "state", "detail, and what to do"), rows)
