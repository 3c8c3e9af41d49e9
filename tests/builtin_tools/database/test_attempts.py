"""Statements of `query` and `explain` cannot write or escape, whatever they try.

Each attempt is made with the recommended role, which can only read, and with a role that owns the tables and whose
rights a person has accepted. So both layers are tested: the rights of the role, and the read-only transaction.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from engine import Engine
from engine.app.settings import Settings
from tests.builtin_tools.database.attempts import ATTEMPTS, SETTING, STATE, Attempt
from tests.builtin_tools.database.cluster import SUPERUSER_PASSWORD, Cluster
from tests.eventually import eventually_sync

MARKER = "secret-of-the-server"
DEADLINE_S = 60
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.services, pytest.mark.spec("TOOL-12")]


@dataclass
class Scene:
    """A database with a victim: another session that runs a statement, and one that listens."""

    postgres: Cluster
    database: str
    folder: Path
    victim: int
    listener: psycopg.Connection[Any]

    @property
    def superuser(self) -> str:
        return self.postgres.dsn("postgres", SUPERUSER_PASSWORD, self.database)

    def statement(self, attempt: Attempt) -> str:
        names = {
            "folder": self.folder,
            "victim": self.victim,
            "port": self.postgres.port,
            "password": SUPERUSER_PASSWORD,
            "database": self.database,
        }
        text = attempt.sql
        for name, value in names.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def state(self) -> list[Any]:
        found = list(self.postgres.run(STATE.replace("{folder}", str(self.folder)), dsn=self.superuser)[0])
        return [*found, len(list(self.listener.notifies(timeout=0)))]


def scene_in(postgres: Cluster, database: str) -> Iterator[Scene]:
    folder = postgres.folder / f"files-{database}"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "secret").write_text(MARKER)
    superuser = postgres.dsn("postgres", SUPERUSER_PASSWORD, database)
    with (
        psycopg.connect(superuser, autocommit=True, application_name="victim") as victim,
        psycopg.connect(superuser, autocommit=True) as listener,
    ):
        listener.execute("LISTEN planted")
        sleeping = threading.Thread(target=sleep, args=(victim,))
        sleeping.start()
        pid = victim.info.backend_pid
        active = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'"
        eventually_sync(lambda: postgres.value(active))
        yield Scene(postgres, database, folder, pid, listener)
        postgres.run(f"SELECT pg_terminate_backend({pid})")
        sleeping.join(DEADLINE_S)


def sleep(connection: psycopg.Connection[Any]) -> None:
    try:
        connection.execute("SELECT pg_sleep(600)")
    except psycopg.Error:
        return


@pytest.fixture(scope="module")
def prepared(postgres: Cluster) -> Cluster:
    postgres.run(*(each for each in [SETTING] if each))
    postgres.run("CREATE DATABASE control TEMPLATE shop", dsn=postgres.dsn("postgres", SUPERUSER_PASSWORD, "postgres"))
    for name in ("erase", "erase_as_owner", "erase_immutably", "erase_read_write", "erase_in_subtransaction"):
        postgres.run(f"ALTER FUNCTION public.{name}() OWNER TO writer")
    return postgres


@pytest.fixture(scope="module")
def scene(prepared: Cluster) -> Iterator[Scene]:
    yield from scene_in(prepared, "shop")


@pytest.fixture(scope="module")
def control(prepared: Cluster) -> Iterator[Scene]:
    yield from scene_in(prepared, "control")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def engines(prepared: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Engine]]:
    tables = {
        "reader": {"dsn": prepared.reader},
        "owner": {"dsn": prepared.writer, "accept_rights": ["writes"]},
    }
    async with AsyncExitStack() as stack:
        opened = {}
        for name, table in tables.items():
            settings = Settings.model_validate({"packs": {"database": {**table, "statement_timeout_s": 20}}})
            home = tmp_path_factory.mktemp(name)
            opened[name] = await stack.enter_async_context(Engine.open(home, settings=settings, environ={}))
        yield opened


def named(attempts: tuple[Attempt, ...]) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("attempt", attempts, ids=lambda each: each.what.replace(" ", "-"))


@pytest.mark.parametrize("role", ["reader", "owner"])
@named(ATTEMPTS)
async def test_an_attempt_to_write_or_escape_fails(
    engines: dict[str, Engine], scene: Scene, role: str, attempt: Attempt
) -> None:
    before = await asyncio.to_thread(scene.state)
    sql = scene.statement(attempt)
    calls = (
        {"action": "query", "sql": sql},
        {"action": "query", "sql": sql, "path": "out.csv"},
        {"action": "explain", "sql": sql},
        {"action": "explain", "sql": sql, "analyze": True},
    )
    async with asyncio.timeout(DEADLINE_S):
        results = [await engines[role].call("postgres_admin", call) for call in calls]
    assert await asyncio.to_thread(scene.state) == before
    queried = results[:2]
    assert [result.success for result in queried] == [attempt.harmless] * 2, queried[0].text
    for result in results:
        assert result.failure is None or result.failure.reason in {"sql_error", "no_right", "read_only", "timeout"}
        assert SUPERUSER_PASSWORD not in str(result.error)
        if attempt.leaks:
            assert MARKER not in f"{result.output}{result.message}"


@named(tuple(each for each in ATTEMPTS if each.control))
def test_the_same_statement_works_for_a_superuser_without_the_tool(control: Scene, attempt: Attempt) -> None:
    refill = "INSERT INTO orders (customer_id, amount, status) SELECT 1, 7, 'paid' FROM generate_series(1, 3)"
    control.postgres.run(refill, dsn=control.superuser)
    before = control.state()
    rows: list[Any] = []
    connection = psycopg.connect(control.superuser, autocommit=True)
    try:
        cursor = connection.execute(control.statement(attempt).encode())
        while True:
            rows += cursor.fetchall() if cursor.description else []
            if not cursor.nextset():
                break
        changed = eventually_sync(lambda: attempt.leaks or control.state() != before, deadline_s=15)
    finally:
        connection.close()
    assert changed
    if attempt.leaks:
        assert MARKER in str(rows)


def test_there_are_more_than_sixty_different_attempts() -> None:
    assert len({each.sql for each in ATTEMPTS}) == len(ATTEMPTS)
    assert len(ATTEMPTS) >= 60
