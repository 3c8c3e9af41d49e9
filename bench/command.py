"""`knackbox bench …`: measures retrieval, memory, admission and fidelity, and speed in comparison with other tools.

The candidates of a benchmark take turns in one run on one machine, so that changes of the machine's speed affect all of
them equally. It needs a source checkout. `make bench` and ``python -m bench`` do the same.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from bench import assembly, bridge, call, jobs, mcp_http, pipeline, runs, start, swarm, undo
from bench.admission import command as admission
from bench.admission import thresholds
from bench.admission.authors import AUTHORS
from bench.admission.problems import HELP, TESTS
from bench.boxes import command as boxes
from bench.conversation import command as conversation
from bench.documents import command as documents
from bench.durability import command as durability
from bench.fact_check import averitec
from bench.fact_check import command as fact_check
from bench.fidelity import run as fidelity
from bench.growth import command as growth
from bench.kernels import command as kernels
from bench.load import command as load
from bench.memory import command as memory
from bench.memory import locomo, speed
from bench.programs import command as programs
from bench.programs.tasks import TASKS
from bench.retrieval import command as retrieval
from bench.retrieval import public_data
from bench.self_play import command as self_play
from bench.turns import command as turns
from builtin_tools.memory.encoder import EncoderName, load_sentences
from engine.interfaces.cli.shared import Exit, fail, wants_json

Bench = Callable[[int, Console], Sequence[dict[str, Any]]]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Rounds; each candidate runs once per round.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, tables on stderr.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The folder with the public data.")]

_TIMINGS: dict[str, tuple[Bench, int, str]] = {
    "call": (call.bench, 40, "A call of a skill through the whole engine, compared with a process and containers."),
    "boxes": (boxes.bench, 40, "The sandbox alone: latency, boxes per second, memory."),
    "kernels": (kernels.bench, 40, "Kernels, compared with stock Jupyter kernels."),
    "pipeline": (pipeline.bench, 5000, "A call of a tool that does nothing, compared with other frameworks."),
    "bridge": (bridge.bench, 10, "Calls that programs in boxes make over their bridge, and what the bridge costs."),
    "start": (start.bench, 20, "The start of an MCP server and of commands, compared with FastMCP and Python."),
    "mcp-http": (mcp_http.bench, 2, "A tool that does nothing, over MCP-HTTP with 1 to 100 clients, beside FastMCP."),
    "jobs": (jobs.bench, 100, "A worker's look at 1,000 to 100,000 jobs when ten are due."),
    "runs": (runs.bench, 20, "The journal of the loop's runs: its cost per turn, and the resumption of a run."),
    "swarm": (swarm.bench, 10, "200 child runs, 20 at a time: speed, and how they end despite kills (rounds)."),
    "undo": (undo.bench, 30, "What recording changes for undo adds to a call, with 100 to 10,000 files."),
    "assembly": (assembly.bench, 200, "The list of tools for a turn, from 50 to 10,000 tools."),
}

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False)


def _add_timing(name: str, bench: Bench, default_rounds: int, help_line: str) -> None:
    @app.command(name, help=help_line)
    def run(ctx: typer.Context, rounds: Rounds = default_rounds, as_json: Json = False) -> None:
        _show(ctx, as_json, lambda console: {name: bench(rounds, console)})


for _name, (_bench, _rounds, _help) in _TIMINGS.items():
    _add_timing(_name, _bench, _rounds, _help)


@app.command("timings")
def timings(ctx: typer.Context, as_json: Json = False) -> None:
    """Run all of the benchmarks above, one after the other."""
    _show(ctx, as_json, lambda console: {name: bench(rounds, console) for name, (bench, rounds, _) in _TIMINGS.items()})


@app.command("code")
def code_(
    ctx: typer.Context,
    *,
    tasks: Annotated[
        int, typer.Option("--tasks", min=1, max=len(TASKS), help="How many of the tasks are solved.")
    ] = len(TASKS),
    as_json: Json = False,
) -> None:
    """Solve tasks with 109 tools, by one call per request and by one program: tokens, requests, modelled seconds."""
    _show(ctx, as_json, lambda console: {"code": programs.bench(tasks, console)})


@app.command("load")
def load_(
    ctx: typer.Context,
    *,
    rounds: Rounds = 1,
    clients: Annotated[
        list[int] | None, typer.Option("--clients", min=1, help="Concurrent clients; repeatable.")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Duration of each measurement.")] = load.SECONDS,
    as_json: Json = False,
) -> None:
    """Measure `knackbox serve` with up to 1,000 clients, compared with a server that starts `python -c` per request."""
    _show(ctx, as_json, lambda console: {"load": load.bench(rounds, console, clients or load.CLIENTS, seconds)})


@app.command("turns")
def turns_(
    ctx: typer.Context,
    rounds: Rounds = 200,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write the record and a chart here.")] = None,
    as_json: Json = False,
) -> None:
    """Run an agent with a scripted model that learns, uses, loses and repairs skills while its files change format."""
    _show(ctx, as_json, lambda console: {"turns": turns.bench(rounds, console, out)})


@app.command("conversation")
def conversation_(
    ctx: typer.Context,
    rounds: Annotated[int, typer.Option("--rounds", min=60, help="Turns before the questions.")] = 200,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write a chart here.")] = None,
    as_json: Json = False,
) -> None:
    """Play a conversation longer than the model's window of 8,000 tokens, and ask for what was planted early."""
    _show(ctx, as_json, lambda console: {"conversation": conversation.bench(rounds, console, out)})


@app.command("durability")
def durability_(
    ctx: typer.Context,
    *,
    kills: Annotated[int, typer.Option("--kills", min=1, help="Runs of each system that are killed once.")] = 30,
    peers: Annotated[
        Path | None, typer.Option("--peers", metavar="PYTHON", help="An interpreter that has the peers.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Kill runs of 50 turns and continue them, compared with LangGraph + SQLite and pydantic-ai + DBOS."""
    if peers is not None and not peers.is_file():
        fail(f"{peers} is not an interpreter. {durability.HELP}", Exit.USAGE)
    _show(ctx, as_json, lambda console: {"durability": durability.bench(kills, console, peers)})


@app.command("self-play")
def self_play_(
    ctx: typer.Context,
    proposals: Annotated[int, typer.Option("--proposals", min=2, max=200, help="Changes that are proposed.")] = 100,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write a chart here.")] = None,
    as_json: Json = False,
) -> None:
    """Let a scripted model propose changes in self-play, half of them harmful or duplicates."""
    _show(ctx, as_json, lambda console: {"self_play": self_play.bench(proposals, console, out)})


@app.command("growth")
def growth_(
    ctx: typer.Context,
    *,
    rounds: Rounds = 3,
    calls: Annotated[
        int, typer.Option("--calls", min=1, help="Calls recorded in each home except the empty one.")
    ] = 1_000_000,
    homes: Annotated[
        Path | None, typer.Option("--homes", metavar="DIR", help="Keep the homes for the next run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure homes of up to 50,000 skills and a million calls (open, search, list), relative to an empty home."""
    _show(ctx, as_json, lambda console: {"growth": growth.bench(rounds, console, calls=calls, folder=homes)})


@app.command("retrieval")
def retrieval_(
    ctx: typer.Context,
    *,
    data: Data = None,
    part: Annotated[
        list[str] | None,
        typer.Option("--part", help=f"One of {', '.join(retrieval.PARTS)}; repeatable. The default is all."),
    ] = None,
    rounds: Rounds = 500,
    as_json: Json = False,
) -> None:
    """Measure recall, refusals, latency and memory of retrieval on public data (in folders of DIR)."""
    folders = public_data.folders_in(data) if data is not None else {}
    if not folders:
        fail(f"{f'{data} has none of the data: ' if data else ''}{public_data.HELP}", Exit.USAGE)
    for name in part or ():
        if name not in retrieval.PARTS:
            fail(f"There is no part {name!r}. Choose one of {', '.join(retrieval.PARTS)}.", Exit.USAGE)
    _show(ctx, as_json, lambda console: {"retrieval": retrieval.bench(rounds, console, folders, part or ())})


@app.command("memory")
def memory_(
    ctx: typer.Context,
    *,
    data: Data = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="NUMBERS", help='Entries, separated by commas; "" measures only recall.')
    ] = ",".join(map(str, speed.SIZES)),
    rounds: Rounds = 200,
    encoder: Annotated[
        str, typer.Option("--encoder", help="Also measure an encoder of [packs.memory]: sentences.")
    ] = "words",
    as_json: Json = False,
) -> None:
    """Evidence recall of the memory on LoCoMo (in DIR/locomo), and its latency with up to 500,000 entries."""
    folder = data / "locomo" if data is not None and (data / "locomo").is_dir() else data
    if folder is None or not any(folder.glob("*.json")):
        fail(f"{f'{data} has no JSON files in locomo: ' if data else ''}{locomo.HELP}", Exit.USAGE)
    counts = [each.strip() for each in sizes.split(",") if each.strip()]
    if not all(each.isascii() and each.isdigit() and int(each) for each in counts):
        fail(f"--sizes must be numbers of entries, such as 1000,50000, but is {sizes!r}.", Exit.USAGE)
    if encoder not in get_args(EncoderName):
        fail(f"There is no encoder {encoder!r}. Choose one of {', '.join(get_args(EncoderName))}.", Exit.USAGE)
    beside = load_sentences() if encoder == "sentences" else None
    _show(ctx, as_json, lambda console: {"memory": memory.bench(rounds, console, folder, [*map(int, counts)], beside)})


@app.command("admission")
def admission_(
    ctx: typer.Context,
    *,
    data: Data = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Randomly chosen problems; the default is all.")
    ] = None,
    mutants: Annotated[int, typer.Option("--mutants", min=1, help="Mutants of each solution.")] = 12,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, help="Problems measured at the same time.")
    ] = admission.AT_ONCE,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all random choices.")] = 1,
    authors: Annotated[
        list[str] | None, typer.Option("--author", help=f"One of {', '.join(AUTHORS)}; repeatable; default: all.")
    ] = None,
    tests: Annotated[
        list[str] | None, typer.Option("--tests", help=f"One of {', '.join(TESTS)}; repeatable; default: all.")
    ] = None,
    by_threshold: Annotated[
        bool, typer.Option("--thresholds", help="Measure the shares admitted at each threshold for mutants instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure the shares of correct and of broken solutions of MBPP (in DIR/mbpp) that are admitted."""
    folder = _folder_with(data, "mbpp", "problems.jsonl", HELP)
    for given, known in ((authors or [], AUTHORS), (tests or [], TESTS)):
        for each in given:
            if each not in known:
                fail(f"{each!r} is not one of {', '.join(known)}.", Exit.USAGE)
    if by_threshold:
        _show(ctx, as_json, lambda console: {"admission": thresholds.bench(folder, rounds, mutants, seed, console)})
        return
    options = admission.AdmissionOptions(
        rounds, mutants, seed, authors or tuple(AUTHORS), tests or tuple(TESTS), at_once
    )
    _show(ctx, as_json, lambda console: {"admission": admission.bench(folder, options, console)})


@app.command("fact-check")
def fact_check_(
    ctx: typer.Context,
    *,
    data: Data = None,
    claims: Annotated[int, typer.Option("--claims", min=1, help="The largest number of claims.")] = 250,
    as_json: Json = False,
) -> None:
    """Check the claims of AVeriTeC (in DIR/averitec) with a scripted model, and confirm every quotation."""
    folder = _folder_with(data, "averitec", averitec.FILE, averitec.HELP)
    path = folder / averitec.FILE
    _show(ctx, as_json, lambda console: {"fact_check": fact_check.bench(path, claims, console)})


@app.command("documents")
def documents_(
    ctx: typer.Context,
    *,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="A folder with documents.")] = None,
    pages: Annotated[int, typer.Option("--pages", min=1, help="Read documents until they have as many pages.")] = 1000,
    as_json: Json = False,
) -> None:
    """Documents read into a memory in boxes, compared with their parsers alone: pages per second, citations."""
    if data is None or not documents.batches_in(data):
        fail(f"{f'{data} has no documents. ' if data else ''}{documents.HELP}", Exit.USAGE)
    _show(ctx, as_json, lambda console: {"documents": documents.bench(pages, console, data)})


@app.command("fidelity")
def fidelity_(
    ctx: typer.Context,
    *,
    suite: Annotated[str, typer.Option("--suite", help=f"One of {', '.join(fidelity.SUITES)}.")] = "cpython",
    modules: Annotated[str, typer.Option("--modules", metavar="NAMES", help="Separated by commas; default: all.")] = "",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Modules that run at the same time.")] = 1,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds per module and side.")] = 600.0,
    as_json: Json = False,
) -> None:
    """Run test suites in a plain process and in a box, and count the cases that pass outside and fail inside."""
    if suite not in fidelity.SUITES:
        fail(f"There is no suite {suite!r}. Choose one of {', '.join(fidelity.SUITES)}.", Exit.USAGE)
    wanted = tuple(name.strip() for name in modules.split(",") if name.strip())
    options = fidelity.Options(suite, wanted, jobs, timeout)
    try:
        _show(ctx, as_json, lambda console: {"fidelity": fidelity.bench(options, console)})
    except LookupError as problem:
        fail(str(problem), Exit.USAGE)


def _folder_with(data: Path | None, name: str, file: str, help_text: str) -> Path:
    """Return the folder that contains the file: DIR/name or DIR. If neither does, the command ends with an error."""
    folders = (data / name, data) if data is not None else ()
    found = next((folder for folder in folders if (folder / file).is_file()), None)
    return found or fail(f"{f'{data} has no {file}: ' if data else ''}{help_text}", Exit.USAGE)


def _show(ctx: typer.Context, as_json: bool, run: Callable[[Console], dict[str, Any]]) -> None:
    to_json = wants_json(ctx, as_json)
    rows = run(Console(stderr=to_json))
    if to_json:
        json.dump(rows, sys.stdout, indent=2)
        sys.stdout.write("\n")
