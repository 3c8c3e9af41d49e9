"""Check the quotations in reports of deep_research.

The commands `knackbox research …`. Entry point of the group ``knackbox.commands``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from builtin_tools.web.pages.reader import BoxedPageReader
from builtin_tools.web.research.report_check import ReportCheck, check_report
from engine.app.engine import Engine
from engine.contract.failure import ToolFailure
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, wants_json
from engine.interfaces.cli.spinner import working

app = typer.Typer(
    help="Reports of deep_research: check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def research() -> None:
    """Reports of deep_research."""  # with a callback, the only command keeps its name


@app.command()
def check(
    ctx: typer.Context,
    reports: Annotated[list[Path], typer.Argument(metavar="REPORT...", help="The files report.md.")],
    *,
    again: Annotated[
        bool, typer.Option("--again", help="Request the pages again instead of reading the copies.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Confirm that each quotation of a report is at the stated place of its source.

    By default the sources are the copies saved beside the report. With --again the pages are requested over the
    configured route. A page that has changed since then is a problem of the report.
    """
    if again:
        with working("Requesting the pages") as spinner:
            checks = with_engine(ctx, lambda engine: _requested(engine, reports), spinner)
    else:
        checks = [check_report(report) for report in reports]
    if wants_json(ctx, as_json):
        emit_json([_row(report, found) for report, found in zip(reports, checks, strict=True)])
    else:
        for report, found in zip(reports, checks, strict=True):
            emit(f"{report}: {found.confirmed} quotations confirmed, {len(found.problems)} problems")
            for problem in found.problems:
                emit(f"  {problem}")
    if any(found.problems for found in checks):
        raise typer.Exit(int(Exit.FAILED))


async def _requested(engine: Engine, reports: Sequence[Path]) -> list[ReportCheck]:
    """Check reports with pages that are requested again."""
    reader = engine.need(BoxedPageReader)
    loop = asyncio.get_running_loop()

    def text_of(source: Mapping[str, Any]) -> str:
        reading = reader.read(str(source["url"]), circuit="research check", fresh=True)
        try:
            return asyncio.run_coroutine_threadsafe(reading, loop).result().text
        except ToolFailure as failure:
            raise ValueError(str(failure)) from failure

    return [await asyncio.to_thread(check_report, report, text_of) for report in reports]


def _row(report: Path, found: ReportCheck) -> dict[str, Any]:
    return {"report": str(report), "confirmed": found.confirmed, "problems": list(found.problems)}
