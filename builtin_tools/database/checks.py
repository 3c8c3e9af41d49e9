"""What `knackbox doctor` checks about the database. Entry point of the group ``knackbox.checks``."""

from collections.abc import Iterator
from importlib.util import find_spec

from builtin_tools.database.postgres_admin import DRIVER
from builtin_tools.database.settings import NAME, DatabaseSettings, DsnSource, database_settings, environment
from engine.app.doctor import BROKEN, EXPOSED, MISSING, OFF, OK, DoctorCheck
from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.failure import ConfigError, ToolFailure

_OTHERS = 0o077  # the permissions of a file for other users


def checks(home: Home, settings: Settings) -> Iterator[DoctorCheck]:  # noqa: ARG001 -- called with both
    """Report whether the database can be reached, and whether its roles have only the rights that they need."""
    try:
        chosen = database_settings(settings.packs.get(NAME, {}))
    except ConfigError as error:
        yield DoctorCheck("configuration", f"[packs.{NAME}]", BROKEN, detail=str(error), remedy="Correct it.")
        return
    if not chosen.reading.sources:
        remedy = "To use postgres_admin, set dsn_file in [packs.database] of config.toml."
        yield _check("PostgreSQL", OFF, remedy=remedy)
        return
    if find_spec(DRIVER) is None:
        yield _check("PostgreSQL", MISSING, remedy="pip install 'knackbox[database]'")
        return
    yield _connection("PostgreSQL", chosen, chosen.reading, writing=False)
    yield from _file("PostgreSQL dsn_file", chosen.reading)
    if chosen.allow_writes:
        yield _connection("PostgreSQL, writing", chosen, chosen.writing, writing=True)
        yield from _file("PostgreSQL write_dsn_file", chosen.writing)


def _connection(name: str, settings: DatabaseSettings, source: DsnSource, *, writing: bool) -> DoctorCheck:
    from builtin_tools.database.inspection import inspect_database  # noqa: PLC0415 -- psycopg is optional and slow

    try:
        return _check(name, OK, inspect_database(settings, source, environment(), writing=writing))
    except ToolFailure as failure:
        return _check(name, BROKEN, str(failure))


def _file(name: str, source: DsnSource) -> Iterator[DoctorCheck]:
    """Report a file with a DSN that other users of the machine can read."""
    if source.file is None:
        return
    try:
        mode = source.file.expanduser().stat().st_mode & 0o777
    except OSError:
        return  # reported with the connection
    if mode & _OTHERS:
        detail = f"other users of this machine can read {source.file} (mode {mode:o})."
        yield _check(name, EXPOSED, detail, f"To prevent this: chmod 600 {source.file}")


def _check(name: str, state: str, detail: str = "", remedy: str = "") -> DoctorCheck:
    return DoctorCheck("database", name, state, required=False, detail=detail, remedy=remedy)
