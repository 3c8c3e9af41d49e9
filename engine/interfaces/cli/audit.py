"""`knackbox audit`: lists recorded calls with their user, risk and result."""

import json
from typing import Annotated, Any

import typer

from engine.app.engine import Engine
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Json, emit_json, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.stores.call_rows import STARTED

_SHOWN_CHARACTERS = 200  # limit for the data that a tool added to a call
app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def audit(
    ctx: typer.Context,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="Show only calls of this tool.")] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Show only calls that did not succeed.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many calls to show.")] = 20,
    as_json: Json = False,
) -> None:
    """List recorded calls, newest first."""

    async def work(engine: Engine) -> list[dict[str, Any]]:
        return engine.calls.recent(limit, tool=tool, failed=failed)

    with working("reading"):
        rows = with_engine(ctx, work)
    if wants_json(ctx, as_json):
        emit_json({"calls": rows})
        return
    if not rows:
        say("no recorded call matches." if tool or failed else "no calls are recorded yet.")
        return
    print_table(("when", "tool", "who", "risk", "end", "ms", "did", "data"), [cells(row) for row in rows])


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the table cells of a call."""
    end = "no result recorded" if row["end"] == STARTED else row["end"]
    if row["reason"]:
        end = f"{end} ({row['reason']})"
    took = "" if row["duration_ms"] is None else f"{row['duration_ms']:.1f}"
    return (
        row["ts"][:19],
        row["tool"],
        f"{row['user']}/{row['agent']}",
        row["risk"],
        end,
        took,
        ", ".join(row["side_effects"]),
        shown_data(row["data"]),
    )


def shown_data(data: dict[str, Any]) -> str:
    """Return, as JSON, the data that a tool added to the audit. Long data is truncated; `--json` shows all of it."""
    if not data:
        return ""
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
