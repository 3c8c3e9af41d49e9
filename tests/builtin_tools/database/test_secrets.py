"""The connection string and its password appear nowhere: not in results, errors, logs, records or the process list."""

import logging
import traceback
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.database.checks import checks
from builtin_tools.database.failures import connection_failure
from builtin_tools.database.postgres_actions import PostgresActions
from builtin_tools.database.sessions import connect
from builtin_tools.database.settings import DatabaseSettings, database_settings
from engine import Engine
from engine.app.doctor import BROKEN, EXPOSED, MISSING, OFF, OK
from engine.app.home import Home
from engine.app.people import People
from engine.app.settings import Settings
from engine.contract.failure import ConfigError, ToolFailure
from tests.builtin_tools.database.cluster import READER_PASSWORD, SUPERUSER_PASSWORD, WRITER_PASSWORD, Cluster
from tests.builtin_tools.database.conftest import Opener
from tests.builtin_tools.database.test_postgres_admin import Person

SECRET = "hunter2-of-the-DSN"
SECRETS = (READER_PASSWORD, WRITER_PASSWORD, SUPERUSER_PASSWORD)
DSN = f"postgresql://someone:{SECRET}@127.0.0.1:1/nothing"
BROKEN_DSNS = (
    DSN,
    f"postgresql://someone:{SECRET}@127.0.0.1:port/nothing",
    f"host=127.0.0.1 port=1 user=someone password={SECRET}",
    f"host=127.0.0.1 password='{SECRET}",
    f"pasword={SECRET}",
    f"postgresql://someone:{SECRET}@/?unknown=1",
    f"{SECRET}",
)
pytestmark = pytest.mark.spec("TOOL-12")


def texts_of(error: BaseException | None) -> str:
    """Return everything that a log could show of an error: its traceback with all contexts, and its repr."""
    shown = []
    while error is not None:
        shown += [repr(error), str(error), *traceback.format_exception(error)]
        error = error.__cause__ or error.__context__
    return "".join(shown)


@pytest.mark.parametrize("dsn", BROKEN_DSNS)
async def test_a_dsn_that_does_not_work_is_not_quoted(
    tmp_path: Path, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = Settings.model_validate({"packs": {"database": {"dsn": dsn, "connect_timeout_s": 2}}})
    async with Engine.open(tmp_path, settings=settings, environ={}) as engine:
        result = await engine.call("postgres_admin", {"action": "query", "sql": "SELECT 1"})
    assert result.failure is not None
    assert result.failure.reason in {"not_configured", "unreachable", "login"}
    assert SECRET not in f"{result!r}{settings!r}{caplog.text}"
    with pytest.raises(ToolFailure) as raised:
        connect(DatabaseSettings(dsn=dsn).reading, {}, 2)
    assert SECRET not in texts_of(raised.value)
    [found, *_] = checks(Home(tmp_path), settings)
    assert SECRET not in repr(found)
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "table",
    [
        {"dns": DSN},
        {"dsn": DSN, "allow_writes": True},
        {"dsn": DSN, "dsn_env": "X"},
        {"dsn": [DSN]},
        {"dsn": DSN, "statement_timeout_s": -1},
        {"accept_rights": [DSN]},
        {"dsn_file": [DSN]},
    ],
)
def test_a_wrong_setting_is_reported_without_values(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        database_settings(table)
    assert "[packs.database]" in str(raised.value)
    assert SECRET not in texts_of(raised.value)


@given(
    text=st.text(max_size=80).map(lambda text: f"{text} {DSN} {text}"),
    kind=st.sampled_from([psycopg.OperationalError, psycopg.ProgrammingError]),
)
def test_no_text_of_a_connection_error_reaches_the_failure(text: str, kind: type[psycopg.Error]) -> None:
    assert SECRET not in texts_of(connection_failure(kind(text)))


def test_the_objects_that_hold_a_dsn_do_not_show_it() -> None:
    settings = DatabaseSettings(dsn=DSN, write_dsn=DSN, allow_writes=True)
    actions = PostgresActions(settings, {"OTHER": DSN})
    shown = f"{settings!r}{settings}{settings.reading!r}{settings.model_dump()}{settings.model_dump_json()}{actions!r}"
    assert SECRET not in shown + repr(vars(actions))


def test_a_dsn_is_read_from_an_environment_variable_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "dsn"
    file.write_text(f"{DSN}\n")
    assert DatabaseSettings(dsn_file=file).reading.read({}).get_secret_value() == DSN
    source = DatabaseSettings(dsn_env="SHOP_DSN").reading
    assert source.read({"SHOP_DSN": DSN}).get_secret_value() == DSN
    assert not source.available({})
    with pytest.raises(ConfigError, match="SHOP_DSN is not set"):
        source.read({})
    with pytest.raises(ConfigError, match="cannot be read"):
        DatabaseSettings(dsn_file=tmp_path / "no").reading.read({})


def test_doctor_reports_a_database_that_is_missing_or_not_reachable(tmp_path: Path) -> None:
    def states(**table: Any) -> list[str]:
        settings = Settings.model_validate({"packs": {"database": table}})
        return [check.state for check in checks(Home(tmp_path), settings)]

    readable = tmp_path / "dsn"
    readable.write_text(DSN)
    readable.chmod(0o644)
    assert states() == [OFF]
    assert states(dsn=DSN, connect_timeout_s=2) == [BROKEN]
    assert states(dsn_file=str(readable), connect_timeout_s=2) == [BROKEN, EXPOSED]
    assert states(unknown=1) == [BROKEN]
    assert MISSING not in states(dsn=DSN, connect_timeout_s=2)


@pytest.mark.spec("LIST-6")
async def test_the_tool_is_listed_only_with_a_dsn(tmp_path: Path) -> None:
    for table, listed in (({"dsn": DSN}, True), ({}, False), ({"dsn_env": "KNACKBOX_TEST_NO_SUCH_VARIABLE"}, False)):
        settings = Settings.model_validate({"packs": {"database": table}})
        async with Engine.open(tmp_path, settings=settings, environ={}) as engine:
            found = await engine.list_tools()
        assert ("postgres_admin" in {tool.spec.name for tool in found.tools}) is listed
        reasons = [each.reason for each in found.dropped if each.name == "postgres_admin"]
        assert reasons == ([] if listed else ["not configured: postgres_dsn"])


@pytest.mark.services
async def test_no_record_result_log_or_process_shows_a_password(
    opened: Opener, postgres: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    person = Person()
    seen: list[Any] = []
    calls: list[dict[str, Any]] = [
        {"action": "query", "sql": "SELECT * FROM orders", "path": "a.csv"},
        {
            "action": "query",
            "sql": "SELECT current_user, current_setting('application_name'), query FROM pg_stat_activity",
        },
        {"action": "query", "sql": "SELECT nonsense"},
        {"action": "query", "sql": "SELECT pg_sleep(60)"},
        {"action": "schema"},
        {"action": "activity"},
        {"action": "explain", "sql": "SELECT 1", "analyze": True},
        {"action": "execute", "sql": "UPDATE orders SET amount = amount"},
        {"action": "execute", "sql": "UPDATE nothing SET amount = amount"},
    ]
    people = People(approver=person)
    writes = {"allow_writes": True, "write_dsn": postgres.writer, "statement_timeout_s": 2}
    async with opened(people=people, **writes) as engine:
        seen += [await engine.call("postgres_admin", call) for call in calls]
        seen.append(await engine.list_tools())
    processes = b"".join(_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert any(result.success for result in seen[:-1])
    for secret in SECRETS:
        assert secret not in f"{seen!r}{person.asked!r}{caplog.text}"
        assert secret.encode() not in stored + processes


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.services
def test_doctor_reports_the_version_the_role_and_excessive_rights(postgres: Cluster, tmp_path: Path) -> None:
    def found(**table: Any) -> list[tuple[str, str]]:
        settings = Settings.model_validate({"packs": {"database": table}})
        return [(check.state, check.detail) for check in checks(Home(tmp_path), settings)]

    [(state, detail)] = found(dsn=postgres.reader)
    assert state == OK
    assert detail.startswith("PostgreSQL ")
    assert detail.endswith("role reader, not encrypted")
    [(state, detail)] = found(dsn=postgres.superuser)
    assert state == BROKEN
    assert "is a superuser" in detail
    both = found(dsn=postgres.reader, allow_writes=True, write_dsn=postgres.writer)
    assert [state for state, _ in both] == [OK, OK]
