"""`knackbox`: the command line. Exit codes: `engine.interfaces.cli.shared.Exit`.

The global options may stand before or after the command. Errors are one line on stderr with a remedy.
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
from engine.interfaces.cli.lazy import LazyGroup, Own
from engine.interfaces.cli.shared import Exit, Options, log_to_stderr, say
from engine.stores.locks import StoreBusy
from sandbox.contract import SandboxError

OWN = {
    "exec": Own("engine.interfaces.cli.run_code", "Run code in a fresh box."),
    "run": Own("engine.interfaces.cli.notebook", "Run a notebook in a box, cell by cell."),
    "call": Own("engine.interfaces.cli.call", "Call one tool."),
    "tools": Own("engine.interfaces.cli.tools", "The tools of this turn, and why others are not among them."),
    "chat": Own("engine.interfaces.cli.chat", "Talk to the configured model, which uses the tools."),
    "audit": Own("engine.interfaces.cli.audit", "The calls that were made, and how they ended."),
    "registry": Own("engine.interfaces.cli.registry", "Registered tools, prompts and agents; their snapshots."),
    "failures": Own("engine.interfaces.cli.failures", "What failed lately, and how it was classified."),
    "restore": Own("engine.interfaces.cli.restore", "Backups of the databases, and the way back to one."),
    "kernelspec": Own("engine.interfaces.cli.kernelspec", "Kernels in boxes for JupyterLab and others."),
    "modules": Own("engine.interfaces.cli.modules", "Tools that live elsewhere: HTTP modules and MCP servers."),
    "doctor": Own("engine.interfaces.cli.doctor", "Which protections hold here, and what else is missing."),
    "mcp": Own("engine.interfaces.cli.mcp", "Serve the tools over MCP on stdin and stdout."),
    "serve": Own("engine.interfaces.cli.serve", "Serve the tools over HTTP, and keep the tokens for it."),
    "bench": Own("engine.interfaces.cli.bench", "How fast it is, beside its peers; from a source checkout."),
    "demo": Own("engine.interfaces.demo.command", "Teach, find, call, fail well, forget: the whole job on real data."),
}
# Objects made between two collections of the youngest generation. Most of what is imported stays, so that looking for
# garbage after every 700 objects (Python's default) only makes the start slower: by an eighth of its CPU time.
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
    home: Annotated[Path | None, typer.Option("--home", help="Where data lives; else $KNACKBOX_HOME.")] = None,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run code WITHOUT isolation. Said again on every call.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout, where a command has it.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    ctx.obj = Options(home=home, unsafe_no_sandbox=unsafe_no_sandbox, as_json=as_json)


def hoist(arguments: Sequence[str]) -> list[str]:
    """Move the global options before the command, wherever a person put them. What follows ``--`` stays.

    A value that belongs to another option is never taken for one of ours, since none of ours can be a value.
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
    """Run one command line; the exit code."""
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
    """The nearest command, when the message is about one that does not exist."""
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
