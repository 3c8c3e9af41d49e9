"""`knackbox`: the command line. Its exit codes are in `engine.interfaces.cli.shared.Exit`.

Global options are accepted before and after the command. Errors are one line on stderr with a remedy.
"""

import difflib
import gc
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from engine.contract.failure import ConfigError, UnknownName
from engine.interfaces.cli.lazy import LazyGroup, OwnCommand
from engine.interfaces.cli.shared import Exit, Options, log_to_stderr, say
from engine.stores.locks import StoreBusy
from sandbox.contract import SandboxError

OWN = {
    "exec": OwnCommand("engine.interfaces.cli.run_code", "Run code in a fresh box."),
    "run": OwnCommand("engine.interfaces.cli.notebook", "Run a notebook in a box, cell by cell."),
    "call": OwnCommand("engine.interfaces.cli.call", "Call one tool."),
    "tools": OwnCommand("engine.interfaces.cli.tools", "List the tools offered in a turn, and why others are not."),
    "chat": OwnCommand("engine.interfaces.cli.chat", "Talk to the configured model, which uses the tools."),
    "runs": OwnCommand("engine.interfaces.cli.runs", "List, show, follow, resume, cancel, copy and export runs."),
    "undo": OwnCommand("engine.interfaces.cli.undo", "Undo what a run or a call changed in its workspace."),
    "audit": OwnCommand("engine.interfaces.cli.audit", "List recorded calls and how they ended."),
    "registry": OwnCommand("engine.interfaces.cli.registry", "Register tools, prompts and agents, and take snapshots."),
    "failures": OwnCommand("engine.interfaces.cli.failures", "List recent failures and how they were classified."),
    "restore": OwnCommand("engine.interfaces.cli.restore", "List backups of the databases, or restore one."),
    "kernelspec": OwnCommand("engine.interfaces.cli.kernelspec", "Install Jupyter kernels that run in boxes."),
    "secrets": OwnCommand("engine.interfaces.cli.secrets", "List and check the configured secrets."),
    "modules": OwnCommand("engine.interfaces.cli.modules", "List and check remote modules and their tools."),
    "doctor": OwnCommand("engine.interfaces.cli.doctor", "Show which protections work here, and what is missing."),
    "mcp": OwnCommand("engine.interfaces.cli.mcp", "Serve the tools over MCP on stdin and stdout."),
    "serve": OwnCommand("engine.interfaces.cli.serve", "Serve the tools over HTTP, and manage the server's tokens."),
    "work": OwnCommand("engine.interfaces.cli.work", "Run jobs by the clock until interrupted."),
    "bench": OwnCommand("engine.interfaces.cli.bench", "Run the benchmarks of a source checkout."),
    "demo": OwnCommand(
        "engine.interfaces.cli.demo", "Show how skills are learned, found and called, and how failures are handled."
    ),
}
# Allocations between two garbage collections of the youngest generation. Most imported objects are never freed, so
# collecting after every 700 allocations (Python's default) only makes the start an eighth slower.
GC_THRESHOLD = 50_000
GLOBAL_FLAGS = frozenset({"--unsafe-no-sandbox"})
GLOBAL_VALUES = frozenset({"--home"})


class Commands(LazyGroup):
    own = OWN


app = typer.Typer(
    name="knackbox",
    help="A sandboxed execution engine for agents, with tools that they acquire, test and find again.",
    cls=Commands,
    epilog="Exit codes: 0 ok, 1 the tool or the code failed, 2 the command line or the input is wrong, "
    "3 a protection, the configuration or a store is missing or broken, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"knackbox {version('knackbox')}")
        except PackageNotFoundError:
            typer.echo("knackbox (a checkout, not installed)")
        raise typer.Exit


@app.callback()
def globals_(
    ctx: typer.Context,
    home: Annotated[Path | None, typer.Option("--home", help="The home folder; by default $KNACKBOX_HOME.")] = None,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run code WITHOUT isolation. Every call warns about it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, if the command supports it.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    ctx.obj = Options(home=home, unsafe_no_sandbox=unsafe_no_sandbox, as_json=as_json)


def hoist(arguments: Sequence[str]) -> list[str]:
    """Move the global options before the command, except after ``--``.

    This is safe, because the values of other options never look like a global option.
    """
    front: list[str] = []
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += [word, *queue]
            break
        if word in GLOBAL_FLAGS or ("=" in word and word.split("=", 1)[0] in GLOBAL_VALUES):
            front.append(word)
        elif word in GLOBAL_VALUES:
            front += [word, *queue[:1]]
            queue = queue[1:]
        else:
            rest.append(word)
    return [*front, *rest]


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    log_to_stderr()
    try:
        code = app(args=hoist(arguments), prog_name="knackbox", standalone_mode=False)
    except TyperException as error:
        message = " ".join(error.format_message().split())
        if message:
            say(f"{message.rstrip('.?')}.{suggestion(message)} See knackbox --help.")
        return int(Exit.USAGE)
    except UnknownName as error:
        say(" ".join(str(error).split()))
        return int(Exit.USAGE)
    except (ConfigError, SandboxError, StoreBusy) as error:
        say(" ".join(str(error).split()))
        return int(Exit.ENVIRONMENT)
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted.")
        return int(Exit.INTERRUPTED)
    return int(code) if isinstance(code, int) else int(Exit.OK)


def suggestion(message: str) -> str:
    """Suggest the closest command if the message is about an unknown command."""
    if not message.startswith("No such command"):
        return ""
    near = difflib.get_close_matches(message.split("'")[1], list(OWN), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def main() -> None:
    """The entry point of the `knackbox` command."""
    gc.set_threshold(GC_THRESHOLD)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
