"""`knackbox failures`: lists recent failures. For each failure of class UNKNOWN, a classification rule is missing."""

from typing import Annotated, Any

import typer

from engine.app.engine import Engine
from engine.contract.failure import FailureClass
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Json, emit_json, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def failures(
    ctx: typer.Context,
    only: Annotated[
        FailureClass | None, typer.Option("--class", help="Show only failures of this class.", case_sensitive=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many failures to show.")] = 20,
    as_json: Json = False,
) -> None:
    """List recent failures, newest first."""

    async def work(engine: Engine) -> list[dict[str, Any]]:
        return engine.failures.recent(limit, only)

    with working("reading"):
        rows = with_engine(ctx, work)
    if wants_json(ctx, as_json):
        emit_json({"failures": rows})
        return
    if not rows:
        say("no failures have been recorded.")
        return
    print_table(
        ("when", "tool", "class", "reason", "error"),
        [
            (row["ts"][:19], row["tool"], row["failure_class"], row["reason"], first_line(row["error_text"]))
            for row in rows
        ],
    )


def first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]
