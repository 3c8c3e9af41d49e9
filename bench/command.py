"""`knackbox bench …`: how long isolated code takes beside its peers, what is found, what is admitted.

All ways of one benchmark take turns in one run on one machine, so that a drift of the machine's speed hits them alike.
For a source checkout (`engine.interfaces.cli.bench`); `make bench` and ``python -m bench`` are the same.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bench import admission, assembly, call, pipeline, retrieval, start, tool_requests
from bench.boxes import command as boxes
from bench.fidelity import run as fidelity
from bench.growth import command as growth
from bench.kernels import command as kernels
from bench.load import command as load
from bench.turns import command as turns
from engine.interfaces.cli.shared import Exit, fail, wants_json

Bench = Callable[[int, Console], Sequence[dict[str, Any]]]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Turns of every way.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, tables on stderr.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The folder with the public data.")]

_TIMINGS: dict[str, tuple[Bench, int, str]] = {
    "call": (call.bench, 40, "A skill called through the whole engine, beside a plain process and containers."),
    "boxes": (boxes.bench, 40, "The sandbox alone: latency, boxes a second, memory."),
    "kernels": (kernels.bench, 40, "Kernels beside stock Jupyter kernels."),
    "pipeline": (pipeline.bench, 5000, "A tool that does nothing, beside other frameworks."),
    "start": (start.bench, 20, "Starting an MCP server and commands, beside FastMCP and Python."),
    "assembly": (assembly.bench, 200, "The list of a turn, of 50 to 10,000 tools."),
}

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False)


def _timing(name: str, bench: Bench, usual: int, help_line: str) -> None:
    @app.command(name, help=help_line)
    def run(ctx: typer.Context, rounds: Rounds = usual, as_json: Json = False) -> None:
        _show(ctx, as_json, lambda console: {name: bench(rounds, console)})


for _name, (_bench, _usual, _help) in _TIMINGS.items():
    _timing(_name, _bench, _usual, _help)


@app.command("timings")
def timings(ctx: typer.Context, as_json: Json = False) -> None:
    """All of the above, one after the other."""
    _show(ctx, as_json, lambda console: {name: bench(usual, console) for name, (bench, usual, _) in _TIMINGS.items()})


@app.command("load")
def load_(
    ctx: typer.Context,
    *,
    rounds: Rounds = 1,
    clients: Annotated[list[int] | None, typer.Option("--clients", min=1, help="At once; repeat it.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Each turn takes.")] = load.SECONDS,
    as_json: Json = False,
) -> None:
    """`knackbox serve` with up to 1,000 clients, beside a Starlette server that starts `python -c` per request."""
    _show(ctx, as_json, lambda console: {"load": load.bench(rounds, console, clients or load.CLIENTS, seconds)})


@app.command("turns")
def turns_(
    ctx: typer.Context,
    rounds: Rounds = 200,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="For its record and its picture.")] = None,
    as_json: Json = False,
) -> None:
    """An agent with a scripted model learns, uses, loses and repairs skills while its world changes."""
    _show(ctx, as_json, lambda console: {"turns": turns.bench(rounds, console, out)})


@app.command("growth")
def growth_(
    ctx: typer.Context,
    *,
    rounds: Rounds = 3,
    calls: Annotated[int, typer.Option("--calls", min=1, help="Recorded in each home but the empty one.")] = 1_000_000,
    homes: Annotated[
        Path | None, typer.Option("--homes", metavar="DIR", help="Keep the homes for the next run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Homes of up to 50,000 skills and a million calls: opening, searching, listing, beside an empty home."""
    _show(ctx, as_json, lambda console: {"growth": growth.bench(rounds, console, calls=calls, folder=homes)})


@app.command("retrieval")
def retrieval_(ctx: typer.Context, data: Data = None, rounds: Rounds = 500, as_json: Json = False) -> None:
    """Which tools are found for a request, and how soon, on the Berkeley Function-Calling Leaderboard (in DIR/bfcl)."""
    folder = _with(data, "bfcl", "tools.jsonl", tool_requests.HELP)
    _show(ctx, as_json, lambda console: {"retrieval": retrieval.bench(rounds, console, folder)})


@app.command("admission")
def admission_(
    ctx: typer.Context,
    *,
    data: Data = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Problems, by chance; else all.")] = None,
    mutants: Annotated[int, typer.Option("--mutants", min=1, help="Of each solution.")] = 12,
    seed: Annotated[int, typer.Option("--seed", help="Of what is left to chance.")] = 1,
    as_json: Json = False,
) -> None:
    """The gate on MBPP (in DIR/mbpp): the share of correct solutions, and of broken ones, that it admits."""
    folder = _with(data, "mbpp", "problems.jsonl", admission.HELP)
    _show(ctx, as_json, lambda console: {"admission": admission.bench(folder, rounds, mutants, seed, console)})


@app.command("fidelity")
def fidelity_(
    ctx: typer.Context,
    *,
    suite: Annotated[str, typer.Option("--suite", help=f"One of {', '.join(fidelity.SUITES)}.")] = "cpython",
    modules: Annotated[str, typer.Option("--modules", metavar="NAMES", help="Separated by commas; else all.")] = "",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Modules at once.")] = 1,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds of one module on one side.")] = 600.0,
    as_json: Json = False,
) -> None:
    """Test suites in a plain process and in a box: how many cases pass outside and fail inside."""
    if suite not in fidelity.SUITES:
        fail(f"There is no suite {suite!r}: give one of {', '.join(fidelity.SUITES)}.", Exit.USAGE)
    wanted = tuple(name.strip() for name in modules.split(",") if name.strip())
    options = fidelity.Options(suite, wanted, jobs, timeout)
    try:
        _show(ctx, as_json, lambda console: {"fidelity": fidelity.bench(options, console)})
    except LookupError as problem:
        fail(str(problem), Exit.USAGE)


def _with(data: Path | None, name: str, file: str, told: str) -> Path:
    """The folder that holds the file: DIR itself, or its folder of that name. Ends the command when there is none."""
    folders = (data / name, data) if data is not None else ()
    found = next((folder for folder in folders if (folder / file).is_file()), None)
    return found or fail(f"{f'{data} has no {file}: ' if data else ''}{told}", Exit.USAGE)


def _show(ctx: typer.Context, as_json: bool, run: Callable[[Console], dict[str, Any]]) -> None:
    to_json = wants_json(ctx, as_json)
    rows = run(Console(stderr=to_json))
    if to_json:
        json.dump(rows, sys.stdout, indent=2)
        sys.stdout.write("\n")
