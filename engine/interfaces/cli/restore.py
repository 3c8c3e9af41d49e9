"""`knackbox restore`: lists backups of the records and the event log, and restores one."""

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
_NO_BACKUPS = "there are no backups yet. An open engine makes one every day ([backups] in config.toml)."

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def restore(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The backup: a name from the list, or latest.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="FILE", help="Restore only this database, such as records.db.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the backups of the databases, or restore one. The replaced files are kept."""
    home, settings = settings_of(ctx)
    backups = backups_of(home, settings.backups, SystemClock())
    found = backups.all()
    if name is None:
        show(found, as_json=wants_json(ctx, as_json))
        return
    backup = find_backup(found, name)
    unknown = set(only or ()) - backup.sizes.keys()
    if unknown:
        fail(f"{backup.name} does not contain {min(unknown)}. It contains {', '.join(backup.sizes)}.", Exit.USAGE)
    with working("restoring"):
        kept = restore_files(home, backups, backup, only or ())
    if wants_json(ctx, as_json):
        emit_json({"restored": backup.name, "files": sorted(only or backup.sizes), "replaced_kept_in": str(kept)})
        return
    say(f"restored the databases of {backup.taken:%Y-%m-%d %H:%M:%S} UTC. The replaced files are in {kept}.")
    say("idempotency keys used since that backup are forgotten. Skills, which are folders, are not affected.")


def restore_files(home: Home, backups: Backups, backup: Backup, only: list[str] | tuple[()]) -> Path:
    """Restore a backup and return the folder with the replaced files.

    Raises:
        ConfigError: An engine is open on this home, the backup is damaged, or the disk is full.
    """
    lock = EngineLock(home.engines)
    try:
        if lock.running_others():
            raise ConfigError(
                f"{home.root}: an engine is open on this home. "
                "First stop the program that opened it (knackbox mcp, serve, chat or another program)."
            )
        return backups.restore(backup, only)
    finally:
        lock.close()


def find_backup(found: list[Backup], name: str) -> Backup:
    """Return the backup with this name. End the command if there is none."""
    if not found:
        fail(_NO_BACKUPS, Exit.ENVIRONMENT)
    wanted = next((each for each in found if name in (each.name, LATEST)), None)
    if wanted is not None:
        return wanted
    return fail(
        f"there is no backup {name}. The newest is {found[0].name}; knackbox restore lists all of them.", Exit.USAGE
    )


def show(found: list[Backup], *, as_json: bool) -> None:
    if as_json:
        emit_json({"backups": [{"name": each.name, "taken": each.taken.isoformat(), **each.sizes} for each in found]})
        return
    if not found:
        say(_NO_BACKUPS)
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
    say(f"knackbox restore {found[0].name} restores the newest backup. Close all engines on this home before that.")
