"""`knackbox restore`: the backups of the records and the event log, and the way back to one."""

from pathlib import Path
from typing import Annotated

import typer

from engine.app.databases import backups_of
from engine.app.home import Home
from engine.contract.failure import ConfigError
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.stores.backups import Backup, Backups
from engine.stores.clock import SystemClock
from engine.stores.engine_lock import EngineLock

LATEST = "latest"

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def restore(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which backup: a name from the list, or latest.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="FILE", help="Only this database, such as records.db.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the backups of the databases, or go back to one. What it replaces is kept."""
    home, settings = settings_of(ctx)
    backups = backups_of(home, settings.backups, SystemClock())
    found = backups.all()
    if name is None:
        show(found, as_json=wants_json(ctx, as_json))
        return
    backup = chosen(found, name)
    unknown = set(only or ()) - backup.sizes.keys()
    if unknown:
        fail(f"{backup.name} has no {min(unknown)}. It has {', '.join(backup.sizes)}.", Exit.USAGE)
    with working("restoring"):
        kept = go_back(home, backups, backup, only or ())
    if wants_json(ctx, as_json):
        emit_json({"restored": backup.name, "files": sorted(only or backup.sizes), "replaced_kept_in": str(kept)})
        return
    say(f"the databases are as they were at {backup.taken:%Y-%m-%d %H:%M:%S} UTC. What they replaced is in {kept}.")
    say("calls with idempotency keys made since then are forgotten. The skills are as their folders say.")


def go_back(home: Home, backups: Backups, backup: Backup, only: list[str] | tuple[()]) -> Path:
    """Restore while no engine is open.

    Raises:
        ConfigError: an engine is open on this home, the backup is damaged, or the disk is full.
    """
    lock = EngineLock(home.engines)
    try:
        if lock.living_others():
            raise ConfigError(
                f"{home.root}: an engine is open on this home. End it first: knackbox mcp, serve, chat or a program."
            )
        return backups.restore(backup, only)
    finally:
        lock.close()


def chosen(found: list[Backup], name: str) -> Backup:
    """The backup of this name; ends the command when there is none."""
    if not found:
        fail("there are no backups yet. An open engine takes one a day: [backups] in config.toml.", Exit.ENVIRONMENT)
    wanted = next((each for each in found if name in (each.name, LATEST)), None)
    if wanted is not None:
        return wanted
    return fail(f"there is no backup {name}. knackbox restore lists them; the newest is {found[0].name}.", Exit.USAGE)


def show(found: list[Backup], *, as_json: bool) -> None:
    if as_json:
        emit_json({"backups": [{"name": each.name, "taken": each.taken.isoformat(), **each.sizes} for each in found]})
        return
    if not found:
        say("there are no backups yet. An open engine takes one a day: [backups] in config.toml.")
        return
    print_table(
        ("name", "taken (UTC)", "files"),
        [
            (
                each.name,
                f"{each.taken:%Y-%m-%d %H:%M:%S}",
                ", ".join(f"{file} {size / 1024:,.0f} KiB" for file, size in each.sizes.items()),
            )
            for each in found
        ],
    )
    say(f"knackbox restore {found[0].name} goes back to the newest; no engine may be open then.")
