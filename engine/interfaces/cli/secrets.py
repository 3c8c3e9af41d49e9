"""`knackbox secrets …`: lists and checks the configured secrets. Values are never shown."""

import os
from dataclasses import asdict

import typer
from rich.text import Text

from engine.app.config import load_settings
from engine.app.home import Home
from engine.app.secrets import SecretState, open_secrets
from engine.interfaces.cli.shared import Exit, Json, emit_json, options, say, wants_json
from engine.interfaces.cli.tables import print_table

app = typer.Typer(
    help="List and check the configured secrets, without their values.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """List every secret with its source, the hosts and tools that it belongs to, and whether its value was found."""
    show(states(ctx), as_json=wants_json(ctx, as_json))


@app.command()
def check(ctx: typer.Context, as_json: Json = False) -> None:
    """List every secret. The exit code is 1 if a value is missing or cannot be used, or if other users can read it."""
    found = states(ctx)
    show(found, as_json=wants_json(ctx, as_json))
    sound = not any(state.problem or state.exposed for state in found)
    raise typer.Exit(int(Exit.OK if sound else Exit.FAILED))


def states(ctx: typer.Context) -> tuple[SecretState, ...]:
    home = Home.locate(options(ctx).home, os.environ)
    configured = load_settings(home, os.environ).secrets
    if configured:
        home.create()
    return open_secrets(home, configured, os.environ).states


def show(found: tuple[SecretState, ...], *, as_json: bool) -> None:
    if as_json:
        emit_json({"secrets": [asdict(state) | {"found": not state.problem} for state in found]})
        return
    if not found:
        say("no secrets are configured. Add a table [secrets.NAME] to config.toml.")
        return
    headings = ("secret", "from", "hosts", "tools", "state")
    print_table(headings, [(s.name, s.source, ", ".join(s.hosts), ", ".join(s.tools), _state(s)) for s in found])


def _state(state: SecretState) -> Text:
    if state.problem:
        return Text(state.problem, style="red")
    return Text(state.exposed, style="yellow") if state.exposed else Text("found", style="green")
